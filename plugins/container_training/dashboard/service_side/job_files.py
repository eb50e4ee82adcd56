"""What a job left in the object store: its files, and its metrics."""

from __future__ import annotations

import json
from typing import Any

from airflow.sdk.exceptions import AirflowException

from container_training.hooks.storage import StorageHook, object_store_endpoint
from container_training.work.job_buckets import JobBuckets
from container_training.work.object_store import ObjectStore, folder_url
from training_api.errors import ResultsMissing, TrainingError

#: More than people read; who wants all of them opens the folder.
MAX_FILES = 300
METRICS_FILE = "metrics.json"
_MAX_METRICS_BYTES = 2**20
#: Google's client asks again for two minutes; a person waits for the answer.
_PATIENCE_SECONDS = 8.0


class FolderUnreadable(TrainingError):
    """The object store did not answer, or refused."""


def folder_view(job_dir: str, results: str, buckets: JobBuckets) -> dict[str, Any]:
    """
    Return the files below ``job_dir`` and the metrics in ``results``.

    They are read with Airflow's own Google connection, and so from certain buckets only.

    :param results: folder of the job's own results, below ``job_dir``; empty: there is none yet.
    :param buckets: those of the connection's jobs.
    :raises BucketRefused: ``job_dir`` is in none of them.
    :raises FolderUnreadable: says why.
    """
    # Imported here: it takes about a second, which only those pay who look at files.
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    folder = f"{job_dir.rstrip('/')}/"
    try:
        with StorageHook(patience_seconds=_PATIENCE_SECONDS) as storage:
            store = storage.get_conn()
            buckets.check(store, folder)
            files, is_cut = store.list_files(folder, MAX_FILES)
            metrics = _metrics(store, f"{results}/{METRICS_FILE}") if results else None
            return {
                "folder": job_dir,
                "folderUrl": folder_url(object_store_endpoint(), job_dir),
                "files": [
                    {
                        "name": file.uri.removeprefix(folder),
                        "bytes": file.size_bytes,
                        "url": store.browser_url(file.uri),
                    }
                    for file in files
                ],
                "isCut": is_cut,
                "metrics": metrics,
                "metricsFrom": results if metrics is not None else None,
            }
    except (ResultsMissing, AirflowException, GoogleAPIError, GoogleAuthError, OSError, ValueError) as error:
        raise FolderUnreadable(f"{job_dir} cannot be read: {error}") from error


def _metrics(store: ObjectStore, uri: str) -> Any:
    try:
        content = store.read(uri, _MAX_METRICS_BYTES)
        return None if content is None else json.loads(content)
    except (ResultsMissing, ValueError, RecursionError):
        return None  # too large, too deep, or no JSON: it is in the list of files, to be opened there
