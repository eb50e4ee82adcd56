"""Whether a folder of the object store is writable, and which files a trainer left in it."""

from __future__ import annotations

from dataclasses import dataclass

from container_training.work.object_store import ObjectStore
from training_api.errors import ResultsMissing, TransportError
from training_api.job.results import ResultFile

_NAME = "written-by-preflight"
_CONTENT = b"This object is deleted again at once.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderProbe:
    """
    What was found.

    :param problem: why nothing can be written, read back or deleted; empty: it can.
    :param files: what was in the folder; it is deleted now.
    """

    problem: str
    files: tuple[ResultFile, ...] = ()


def probe_folder(store: ObjectStore, folder: str) -> FolderProbe:
    """
    Write, read back and delete a small object in ``folder``; delete all else in it, too.

    :param folder: ``gs://BUCKET/FOLDER``; nothing else may use it.
    :raises TransportError: the object store did not answer, or failed.
    """
    # Imported on use: it takes half a second, which no DAG parse may cost.
    from google.api_core.exceptions import ClientError, GoogleAPICallError, RetryError
    from google.auth.exceptions import GoogleAuthError
    from requests import RequestException

    uri = f"{folder}/{_NAME}"
    try:
        store.write_if_changed(uri, _CONTENT, "text/plain")
        found = store.read(uri, len(_CONTENT))
        files = tuple(file for file in store.delete_folder(folder) if file.uri != uri)
    except ResultsMissing as error:
        return FolderProbe(problem=str(error))
    except (ClientError, GoogleAuthError) as error:
        return FolderProbe(problem=f"{uri}: {type(error).__name__}: {error}")
    except (GoogleAPICallError, RetryError, RequestException) as error:
        raise TransportError(f"the object store did not answer for {uri}: {error}") from error
    problem = "" if found == _CONTENT else f"{uri} was written, but what is read back is not what was written"
    return FolderProbe(problem=problem, files=files)
