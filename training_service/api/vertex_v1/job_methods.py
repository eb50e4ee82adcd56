"""The methods of customJobs, in canonical JSON: what every transport calls."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from training_api.dialects.vertex_v1.names import job_name, new_id
from training_api.dialects.vertex_v1.reader import custom_job_spec, request_of
from training_api.errors import JobNotFound
from training_service.access.control import AccessControl
from training_service.access.decision import Caller
from training_service.access.roles import ACT_AS, SECRET_ACCESS
from training_service.api.vertex_v1.canonical import canonical
from training_service.api.vertex_v1.operations import Operations
from training_service.api.vertex_v1.read_mask import masked, read_mask
from training_service.api.vertex_v1.writer import CUSTOM_JOBS, custom_job
from training_service.model.records import JobRecord
from training_service.model.resources import account_resource
from training_service.use_cases.job_removal import JobRemoval
from training_service.use_cases.jobs import Jobs

MESSAGE = "CustomJob"


class CustomJobs:
    """
    The CustomJobs of all projects.

    :param jobs: those of this dialect.
    :param learn: told of each project that a job is made in; its number leads to it from then on.
    :param tail: returns the end of what a job's failed replica wrote.
    :param random_number: what the ids of jobs are made from.
    """

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

        :param body: the CustomJob, in any form of its JSON.
        :raises BrokenRules: it cannot be read, or breaks rules.
        :raises AccessDenied: the caller may not act as its account, or name a secret.
        """
        request = request_of(canonical(MESSAGE, body, "custom_job"))
        spec = custom_job_spec(project, location, new_id(self._random_number()), request)
        if spec.service_account:
            self._access.check(caller, ACT_AS, account_resource(spec.service_account))
        if spec.secrets:
            self._access.check(caller, SECRET_ACCESS, f"projects/{project}")
        created = self._jobs.create(spec, request).record
        # After it, so that a refused request teaches no number. A kill in between loses nothing: what is
        # learnt is in memory only, and an unknown number is looked up among the stored jobs.
        self._learn(project)
        return custom_job(created)

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
        paths = read_mask(mask, MESSAGE)
        page = self._jobs.list_page(project, filter_text, page_size, page_token, region=location)
        found = [masked(custom_job(view.record), paths) for view in page.jobs]
        token = {"nextPageToken": page.next_page_token} if page.next_page_token else {}
        return {**({CUSTOM_JOBS: found} if found else {}), **token}

    def get(self, project: str, location: str, job_id: str) -> dict[str, Any]:
        """
        Return a job, with the end of what its failed replica wrote, which a list does not show.

        :raises JobNotFound: there is none, or in another location.
        """
        record = self._found(project, location, job_id)
        return custom_job(record, self._tail(record))

    def cancel(self, project: str, location: str, job_id: str) -> dict[str, Any]:
        """Ask a job to end; one that has ended is left as it is. :raises JobNotFound: there is none."""
        self._jobs.cancel(project, self._found(project, location, job_id).spec.job_id)
        return {}

    def delete(self, project: str, location: str, job_id: str) -> dict[str, Any]:
        """
        Remove a job that has ended, and return the operation, which is done.

        :raises JobNotFound: there is none.
        :raises JobStillActive: it has not ended.
        """
        self._removal.remove(self._found(project, location, job_id))
        # Its operation is asked for by the number, and this may have been the project's last job.
        self._learn(project)
        return self._operations.done(project, location)

    def _found(self, project: str, location: str, job_id: str) -> JobRecord:
        name = job_name(project, location, CUSTOM_JOBS, job_id[:100])
        try:
            record = self._jobs.record(project, job_id)
        except JobNotFound as error:
            raise JobNotFound(f"The CustomJob does not exist: {name!r}") from error
        if record.spec.region != location:
            raise JobNotFound(f"The CustomJob does not exist: {name!r}; it is in {record.spec.region}")
        return record
