"""The content of a job to submit, and the earlier job with the same content."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined]  # the stub lacks it
from airflow.sdk.exceptions import AirflowNotFoundException
from tenacity import Retrying

from container_training.hooks.metrics import Submission, count_submission
from container_training.hooks.training import TrainingHook
from container_training.runtime.job_report import report_of
from container_training.work.object_store import ObjectStore
from container_training.work.submission.content import (
    CONTENT_LABEL,
    DataVersion,
    content_hash,
    data_record,
    images_without_digest,
)
from container_training.work.submission.earlier_jobs import EarlierJobs, data_versions
from training_api.cached import cached_property
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.errors import TrainingError

if TYPE_CHECKING:
    from training_api.job.job_spec import JobSpec

#: Under which key a task's state store keeps what the data of its job were.
_RECORD_KEY = "job_data"


class JobContent:
    """
    The content of one job: image digests, request, generations of data.

    It is read on first use and then kept.

    :param request: what the service is asked for.
    :param options: what the request has that only some APIs know.
    :param data_uris: what the job reads.
    :param is_reused: an earlier job of the same content will do.
    :param elsewhere: hooks of more connections whose jobs will do, asked in this order.
    :param store: the object store, made when it is needed: importing its client takes a second.
    :param result_files: what the folder of an earlier job must hold.
    :param retrying: asks the service again while it does not answer.
    :param say: writes a line to the task's log, at a level.
    """

    def __init__(
        self,
        spec: JobSpec,
        request: TrainingInput,
        options: Mapping[str, Any],
        *,
        data_uris: Sequence[str],
        is_reused: bool,
        hook: TrainingHook,
        elsewhere: Sequence[TrainingHook] = (),
        store: Callable[[], ObjectStore],
        result_files: Sequence[str],
        retrying: Retrying,
        say: Callable[[int, str], None],
    ) -> None:
        self._spec = spec
        self._request = request
        self._options = options
        self._data_uris = data_uris
        self._is_reused = is_reused
        self._hook = hook
        self._elsewhere = elsewhere
        self._store = store
        self._result_files = result_files
        self._retrying = retrying
        self._say = say
        #: The earlier job whose results are taken, once there is one, and the hook of its connection.
        self.taken: Job | None = None
        self.taken_from = hook

    @cached_property
    def data(self) -> list[DataVersion]:
        """
        What the job would read now, its packages included.

        :raises DataMissing: there is nothing at an address.
        """
        if not (self._is_reused or self._data_uris):
            return []
        packages = self._spec.packages.uris if self._spec.packages else ()
        uris = [*self._data_uris, *packages]
        versions = data_versions(self._store(), uris) if uris else []
        for version in versions:
            self._say(
                logging.INFO,
                f"data {version.uri}: objects: {version.objects}, digest of generations: {version.digest}",
            )
        return versions

    @cached_property
    def labels(self) -> dict[str, str]:
        """The label that names the content; none where it is not known, or nobody asked for it."""
        if not (self._is_reused or self._data_uris):
            return {}
        if tags := images_without_digest(self._spec):
            self._say(
                logging.WARNING,
                f"the content of {', '.join(tags)} is not known, as a tag may name another image tomorrow: "
                "the job is trained, and is "
                "not found later; name images by digest, as PushImageOperator returns them",
            )
            return {}
        return {CONTENT_LABEL: content_hash(self._request, self.data, self._options)}

    def store_record(self, store: Any) -> None:
        """
        Store the generations of the data before the job is submitted.

        A later try that adopts the job reads them, whatever the data are then.
        """
        if store is not None and self.data:
            store.set(_RECORD_KEY, data_record(self.data), retention=NEVER_EXPIRE)

    def record(self, store: Any) -> list[Any]:
        """
        Return what the data of the task's job were, as JSON values (``DataVersion``).

        :param store: the task's state store; ``None``: there is none, and so nothing is known of an adopted
            job.
        """
        if self.taken is not None:
            return list(data_record(self.data))
        return list((store.get(_RECORD_KEY) if store is not None else None) or [])

    def earlier_job(self) -> Job | None:
        """
        Return the earlier job whose results are to be taken, if there is one, and log it.

        ``None`` also if reuse is not wanted.
        """
        if not self._is_reused or not self.labels:
            return None
        content = self.labels[CONTENT_LABEL]
        self.taken = self._find(self._hook, self._retrying, content) or self._find_elsewhere(content)
        if self.taken is None:
            self._say(
                logging.INFO, f"no job with the content {content} and results that can be taken: training"
            )
            return None
        count_submission(Submission.REUSED)
        ended = self.taken.end_time or self.taken.create_time
        self._say(
            logging.INFO,
            f"job {self.taken.job_id} of {f'{ended:%Y-%m-%d %H:%M} UTC' if ended else 'an unknown time'} has "
            "the same content: not "
            f"trained again; {report_of(self.taken_from, self.taken).record_url}",
        )
        return self.taken

    def _find(self, hook: TrainingHook, ask: Callable[..., Any], content: str) -> Job | None:
        jobs = EarlierJobs(
            lambda *page: ask(hook.list_jobs, *page),
            lambda job_id: ask(hook.get_job, job_id),
            self._store,
            hook.job_buckets,
            result_files=self._result_files,
            say=lambda line: self._say(logging.WARNING, line),
        )
        return jobs.find(content, self.data, self._options)

    def _find_elsewhere(self, content: str) -> Job | None:
        """Return the job of another connection; a service that cannot be asked has none."""
        for hook in self._elsewhere:
            try:
                found = self._find(hook, _once, content)
            except (TrainingError, AirflowNotFoundException) as error:
                self._say(
                    logging.WARNING, f"earlier jobs of {hook.training_conn_id} cannot be looked for: {error}"
                )
                continue
            if found is not None:
                self.taken_from = hook
                return found
        return None


def _once(question: Callable[..., Any], *arguments: Any) -> Any:
    return question(*arguments)
