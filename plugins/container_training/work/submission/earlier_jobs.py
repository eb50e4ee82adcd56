"""Finds an earlier job of the same content, with results that are still there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from container_training.work.job_buckets import BucketRefused, JobBuckets
from container_training.work.object_store import ObjectStore
from container_training.work.submission.content import DataVersion, content_filter, has_content
from training_api.clients.backend import NO_OPTIONS
from training_api.clients.job_lists import listed_jobs
from training_api.dialects.ml_v1.resources import Job, ListJobsResponse, TrainingInput
from training_api.dialects.ml_v1.trials import study_result
from training_api.errors import AccessDenied, DataMissing, JobNotFound, ResultsMissing

#: Of more jobs with the same content the newest are looked at, among the first that lists name.
_MAX_JOBS, _MAX_LISTED = 20, 100
_NEVER = datetime.min.replace(tzinfo=UTC)


def data_versions(store: ObjectStore, uris: Sequence[str]) -> list[DataVersion]:
    """
    Return what is at each of ``uris`` now, each address once.

    :raises DataMissing: there is nothing at one of them, or it is no ``gs://`` address.
    """
    return [_data_version(store, uri) for uri in dict.fromkeys(uris)]


def _data_version(store: ObjectStore, uri: str) -> DataVersion:
    try:
        version = DataVersion.of(uri, store.generations(uri))
    except ValueError as error:
        raise DataMissing(
            f"data_uris must be addresses in Cloud Storage: {error}; copy the data there, and give its address"
        ) from error
    if not version.objects:
        raise DataMissing(
            f"there is no object at {uri!r} or below it, and the job is said to read it; write it first, or "
            "mend data_uris or package_uris"
        )
    return version


class EarlierJobs:
    """
    One question: has a job of this content SUCCEEDED, and are its results still there?

    :param list_jobs: filter, page size, page token -> a page of jobs.
    :param get_job: job id -> its record, with all trials.
    :param result_files: what must be in a job's folder, of a tuning job in that of its best trial; a name
        that ends in ``/`` stands for anything below it.
    :param say: called with why a job is not taken.
    """

    def __init__(
        self,
        list_jobs: Callable[[str, int, str], ListJobsResponse],
        get_job: Callable[[str], Job],
        store: Callable[[], ObjectStore],
        buckets: JobBuckets,
        *,
        result_files: Sequence[str],
        say: Callable[[str], None],
    ) -> None:
        self._list_jobs = list_jobs
        self._get_job = get_job
        self._store = store
        self._buckets = buckets
        self._result_files = result_files
        self._say = say

    def find(
        self, content: str, data: Sequence[DataVersion], options: Mapping[str, Any] = NO_OPTIONS
    ) -> Job | None:
        """Return the newest such job. An account that may not list jobs has none."""
        for job in self._candidates(content, data, options):
            missing = self._missing(job)
            if not missing:
                return job
            self._say(f"job {job.job_id} has the same content, but its results cannot be taken: {missing}")
        return None

    def _candidates(
        self, content: str, data: Sequence[DataVersion], options: Mapping[str, Any]
    ) -> Iterator[Job]:
        try:
            filter_ = content_filter(content)
            listed = listed_jobs(lambda token: self._list_jobs(filter_, _MAX_JOBS, token))
            found = list(islice(listed, _MAX_LISTED))
        except AccessDenied as error:
            self._say(
                f"earlier jobs cannot be looked for (that takes ml.jobs.list, roles/ml.viewer): {error}"
            )
            return
        for job in sorted(found, key=lambda job: job.create_time or _NEVER, reverse=True)[:_MAX_JOBS]:
            try:
                # A list need not show trials.
                full = self._get_job(job.job_id or "")
            except JobNotFound:
                continue
            if has_content(full, content, data, options):
                yield full

    def _missing(self, job: Job) -> str:
        """Return what is missing of the results of ``job``; empty: nothing."""
        folder = (job.training_input or TrainingInput()).job_dir
        study = study_result(job, datetime.now(UTC), max_trials=1)
        if study is not None:
            folder = study.best.job_dir if study.best else None
        if not folder:
            return "no trial of it has a result" if study else "it has no job folder"
        store = self._store()
        try:
            self._buckets.check(store, folder)
            uris = [f"{folder.rstrip('/')}/{name.lstrip('/')}" for name in self._result_files]
            gone = [uri for uri in uris if not store.has_file(uri)]
        except (BucketRefused, ResultsMissing) as error:
            return str(error)
        return f"{', '.join(gone)} is not there (result_files names what must be)" if gone else ""
