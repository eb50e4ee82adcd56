"""The methods of customJobs and relatives, in canonical JSON: what every transport calls."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from training_api.dialects.vertex_v1.names import job_name, new_id, trial_uid
from training_api.dialects.vertex_v1.reader import custom_job_spec, request_of
from training_api.errors import JobNotFound, ServiceError
from training_api.job.job_spec import JobSpec
from training_service.access.control import AccessControl
from training_service.access.decision import Caller
from training_service.api.vertex_v1.canonical import canonical
from training_service.api.vertex_v1.job_rights import check_rights_of_job
from training_service.api.vertex_v1.operations import Operations
from training_service.api.vertex_v1.read_mask import masked_page, read_mask
from training_service.api.vertex_v1.tuning_writer import TUNING_JOBS
from training_service.api.vertex_v1.writer import CUSTOM_JOBS, custom_job
from training_service.model.records import JobRecord
from training_service.use_cases.job_removal import JobRemoval
from training_service.use_cases.jobs import Jobs, JobView

MESSAGE = "CustomJob"


class IsTrial(ServiceError):
    """A method that a CustomJob does not have, as it is a trial of a tuning job."""

    code, status = 400, "FAILED_PRECONDITION"


class JobMethods(ABC):
    """
    The jobs of one kind, in all projects.

    :param jobs: those of this dialect.
    :param learn: told of each project that a job is made in; its number leads to it from then on.
    :param tail: returns the end of what a job's failed replica wrote.
    :param random_number: what the ids of jobs are made from.
    """

    #: The name of the resource's message, and of its collection.
    message: ClassVar[str]
    collection: ClassVar[str]
    #: Whether jobs of this kind tune.
    tunes: ClassVar[bool]

    def __init__(
        self,
        jobs: Jobs,
        access: AccessControl,
        removal: JobRemoval,
        operations: Operations,
        learn: Callable[[str], None] = lambda project: None,
        tail: Callable[[JobRecord], str] = lambda record: "",
        random_number: Callable[[], int] = lambda: secrets.randbits(63),
    ) -> None:
        self._jobs = jobs
        self._access = access
        self._removal = removal
        self._operations = operations
        self._learn = learn
        self._tail = tail
        self._random_number = random_number

    def create(self, project: str, location: str, body: Any, caller: Caller) -> dict[str, Any]:
        """
        Validate and queue a job, and return it; the service gives it an id.

        :param body: the resource, in any form of its JSON.
        :raises BrokenRules: it cannot be read, or breaks rules.
        :raises AccessDenied: the caller may not act as its account, or name a secret.
        """
        spec, request = self._read(project, location, new_id(self._random_number()), body)
        check_rights_of_job(self._access, caller, spec)
        created = self._queued(spec, request)
        # After it, so that a refused request teaches no number. A kill in between loses nothing: what is
        # learnt is in memory only, and an unknown number is looked up among the stored jobs.
        self._learn(project)
        return self._shown(created)

    def list_page(
        self,
        project: str,
        location: str,
        *,
        filter_text: str = "",
        page_size: int = 0,
        page_token: str = "",
        mask: str = "",
    ) -> dict[str, Any]:
        """
        Return a page of the jobs of a location, newest first.

        :raises InvalidFilter: the filter cannot be read.
        :raises InvalidRequest: the mask, the page token or the page size is invalid.
        """
        paths = read_mask(mask, self.message)
        page = self._jobs.list_page(
            project, filter_text, page_size, page_token, region=location, tunes=self.tunes
        )
        return masked_page(self.collection, map(self._shown, page.jobs), paths, page.next_page_token)

    def get(self, project: str, location: str, job_id: str) -> dict[str, Any]:
        """
        Return a job, with the end of what its failed replica wrote, which a list does not show.

        :raises JobNotFound: there is none, or in another location.
        """
        record = self._found(project, location, job_id)
        return self._shown(self._jobs.view(record), self._tail(record))

    def cancel(self, project: str, location: str, job_id: str) -> dict[str, Any]:
        """Ask a job to end; one that has ended is left as it is. :raises JobNotFound: there is none."""
        self._jobs.cancel(project, self._own(project, location, job_id).spec.job_id)
        return {}

    def delete(self, project: str, location: str, job_id: str) -> dict[str, Any]:
        """
        Remove a job that has ended, and return the operation, which is done.

        :raises JobNotFound: there is none.
        :raises JobStillActive: it has not ended.
        """
        self._removal.remove(self._own(project, location, job_id))
        # Its operation is asked for by the number, and this may have been the project's last job.
        self._learn(project)
        return self._operations.done(project, location)

    @abstractmethod
    def _read(self, project: str, location: str, job_id: str, body: Any) -> tuple[JobSpec, dict[str, Any]]:
        """Return what a create request asks for, and what of it is the client's, in canonical JSON."""

    @abstractmethod
    def _shown(self, view: JobView, tail: str = "") -> dict[str, Any]:
        """Return the resource of a job. :param tail: the end of what its failed replica wrote."""

    def _queued(self, spec: JobSpec, request: dict[str, Any]) -> JobView:
        return self._jobs.create(spec, request)

    def _record(self, project: str, job_id: str) -> JobRecord:
        """Return a job of this kind. :raises JobNotFound: there is none."""
        record = self._jobs.record(project, job_id)
        # A specification that cannot be read says nothing; the request does.
        if (record.spec.study is not None or "trialJobSpec" in record.request) is not self.tunes:
            raise JobNotFound(f"job {job_id!r} is of another kind")
        return record

    def _found(self, project: str, location: str, job_id: str) -> JobRecord:
        name = job_name(project, location, self.collection, job_id[:100])
        try:
            record = self._record(project, job_id)
        except JobNotFound as error:
            raise JobNotFound(f"The {self.message} does not exist: {name!r}") from error
        if record.spec.region != location:
            raise JobNotFound(f"The {self.message} does not exist: {name!r}; it is in {record.spec.region}")
        return record

    def _own(self, project: str, location: str, job_id: str) -> JobRecord:
        """Return a job that can be changed by itself. :raises IsTrial: its tuning job decides."""
        record = self._found(project, location, job_id)
        if record.trial:
            name = job_name(project, location, TUNING_JOBS, record.spec.job_id)
            raise IsTrial(f"this CustomJob is trial {record.trial_id} of {name}; cancel or delete that")
        return record


class CustomJobs(JobMethods):
    """The CustomJobs of all projects; trials are found, but not listed."""

    message, collection, tunes = MESSAGE, CUSTOM_JOBS, False

    def _read(self, project: str, location: str, job_id: str, body: Any) -> tuple[JobSpec, dict[str, Any]]:
        request = request_of(canonical(MESSAGE, body, "custom_job"))
        return custom_job_spec(project, location, job_id, request), request

    def _shown(self, view: JobView, tail: str = "") -> dict[str, Any]:
        return custom_job(view.record, tail)

    def _record(self, project: str, job_id: str) -> JobRecord:
        try:
            return super()._record(project, job_id)
        except JobNotFound:
            if uid := trial_uid(job_id):
                return self._jobs.trial(project, uid)
            raise
