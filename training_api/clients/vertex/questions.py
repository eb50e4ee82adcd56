"""
The operations of Vertex AI's API: which requests they send, and what the answers mean.

A job is named by the number that the service gave it, or by the id that its task chose, which is its display
name. Display names are not unique: among jobs of that name, only those with the label of an owner are looked
at (``airflow-owner``). The oldest of them that lives or succeeded is it; where there is none, the oldest: a
duplicate that was cancelled must not stand for the job that runs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from training_api.clients.api_answers import read_model
from training_api.clients.backend import NO_OPTIONS
from training_api.clients.vertex.steps import Steps
from training_api.cloud_logging import ListLogEntriesRequest, ListLogEntriesResponse
from training_api.dialects.ml_v1.resources import Job, ListJobsResponse
from training_api.errors import (
    InvalidArgument,
    InvalidJobSpec,
    JobConflict,
    JobNotFound,
    ServiceError,
    TransportError,
)
from training_api.filtering import quoted
from training_api.job.job_spec import JobSpec
from training_api.job.labels import OWNER_LABEL
from training_api.states import ACTIVE, JobState
from training_api.vertex_jobs.address import CUSTOM_JOBS, TUNING_JOBS, VertexAddress
from training_api.vertex_jobs.filters import vertex_filter
from training_api.vertex_jobs.options import PATH, VertexOptions
from training_api.vertex_jobs.reader import job_of
from training_api.vertex_jobs.spec import vertex_job_spec
from training_api.vertex_jobs.writer import vertex_request

_log = logging.getLogger(__name__)

_COLLECTIONS = (CUSTOM_JOBS, TUNING_JOBS)
#: A job in one of these states represents a task only if the task has no other job.
_WITHOUT_RESULT = frozenset({JobState.FAILED, JobState.CANCELLING, JobState.CANCELLED})
#: A triggerer's client lives for weeks. Beyond this many, all are forgotten and looked up again.
_MAX_PLACES = 10_000
#: What gcloud asks for; the documents name no limit.
_MOST_OF_PAGE = 100


@dataclass(slots=True)
class VertexQuestions:
    """Builds requests and reads answers; shared by both clients."""

    address: VertexAddress
    headers: Mapping[str, str] | None = field(default=None, repr=False)  # with the token
    #: Number of a job -> its region and collection, as far as they were seen.
    _places: dict[str, tuple[str, str]] = field(default_factory=dict)

    def create(self, job: Job, options: Mapping[str, Any] = NO_OPTIONS) -> Steps[Job]:
        """
        Make a job in the first region of its options, or else of the address.

        Nothing is made if a list shows a job of this name with an owner.
        """
        read = self._read(options)
        wanted = vertex_request(job, read)
        taken = yield from self._named(job.job_id or "")
        if taken:
            raise JobConflict(f"display name {job.job_id!r} is taken by job {taken[0].job_id} of a task")
        region = (read.regions or self.address.regions)[0]
        answer = yield self._request("POST", region, wanted.collection, body=wanted.body)
        return self._seen(answer, region, wanted.collection)

    def spec_of(self, job: Job, options: Mapping[str, Any] = NO_OPTIONS) -> JobSpec:
        """
        Return what a job would be, without a request.

        :raises InvalidJobSpec: Vertex AI has no such job, or one of its regions is not the connection's.
        """
        return vertex_job_spec(self.address.project, job, self._read(options))

    def _read(self, options: Mapping[str, Any]) -> VertexOptions:
        read = VertexOptions.of(options)
        # Nobody would find a job in a region that is not the connection's.
        if unknown := [region for region in read.regions if region not in self.address.regions]:
            raise InvalidJobSpec.of(
                f"{PATH}.regions",
                f"must be among the regions of the connection, {self._regions}; got {', '.join(unknown)}. "
                "Add them to the connection's extra regions",
            )
        return read

    def get(self, job_id: str) -> Steps[Job]:
        """Find one job, by its number or by the id that its task chose."""
        if not _is_number(job_id):
            return (yield from self._of_task(job_id))
        answer, region, collection = yield from self._numbered(job_id)
        return self._seen(answer, region, collection)

    def resource(self, job_id: str) -> Steps[Mapping[str, Any]]:
        """Find one job, as ``get`` does, as the API has it."""
        if not _is_number(job_id):
            named = yield from self._of_task(job_id)
            job_id = named.job_id or ""
        answer, _, _ = yield from self._numbered(job_id)
        return answer

    def newest(self, most: int) -> Steps[list[Mapping[str, Any]]]:
        """
        List the newest jobs of each region and collection, as the API has them.

        Lists begin with the newest [unverified: the documents name no order].

        :param most: of each, in whole pages.
        """
        found: list[Mapping[str, Any]] = []
        for region, collection in self._all_places:
            of_place: list[Mapping[str, Any]] = []
            token = ""
            while len(of_place) < most:
                answer = yield self._list_request(region, collection, "", _MOST_OF_PAGE, token)
                of_place += answer.get(collection) or []
                token = str(answer.get("nextPageToken") or "")
                if not token:
                    break
            found += of_place
        return found

    def duplicates(self, job: Job) -> Steps[list[Job]]:
        """List the jobs of the owner of ``job`` that run or will run and are not ``job``."""
        owner = (job.labels or {}).get(OWNER_LABEL, "")
        if not owner:
            return []
        found = yield from self._everywhere(f"labels.{OWNER_LABEL}={quoted(owner)}")
        return [each for each in found if each.job_id != job.job_id and each.state in ACTIVE]

    def page(self, filter_: str, page_size: int, page_token: str) -> Steps[ListJobsResponse]:
        """
        List a page of the jobs of all regions and both collections, one after the other.

        A page token says where the list goes on: ``REGION/COLLECTION/TOKEN``.

        :raises InvalidArgument: the token is none of these, or its region is not the connection's any more.
        """
        places = self._all_places
        place, token = 0, ""
        if page_token:
            region, _, rest = page_token.partition("/")
            collection, _, token = rest.partition("/")
            if (region, collection) not in places:
                raise InvalidArgument(
                    f"page_token must be one that a list of jobs in {self._regions} gave, got {page_token!r:.200}; "
                    "begin again without one"
                )
            place = places.index((region, collection))
        region, collection = places[place]
        answer = yield self._list_request(region, collection, vertex_filter(filter_), page_size, token)
        jobs = self._jobs(answer, region, collection)
        following = str(answer.get("nextPageToken") or "")
        if not following and place + 1 < len(places):
            place += 1
        elif not following:
            return ListJobsResponse(jobs=jobs)
        return ListJobsResponse(jobs=jobs, next_page_token="/".join([*places[place], following]))

    def cancel(self, job_id: str) -> Steps[None]:
        """Ask a job to end; a job that has ended is left as it is."""
        job = yield from self.get(job_id)
        if job.state is not None and job.state.is_terminal:
            return
        number = job.job_id or ""
        if number not in self._places:  # they were emptied while its name was looked for
            yield from self.get(number)
        yield self._request("POST", *self._places[number], f"{number}:cancel", body={})

    def list_log_entries(
        self, filter_: str, page_size: int, page_token: str, *, newest_first: bool = False
    ) -> Steps[ListLogEntriesResponse]:
        """List a page of the log."""
        body = ListLogEntriesRequest(
            resource_names=[f"projects/{self.address.project}"],
            filter=filter_,
            order_by="timestamp desc" if newest_first else "timestamp asc",
            page_size=page_size,
            page_token=page_token,
        )
        url = self.address.of_api("logging", self.address.logging_endpoint)
        answer = yield self._to("POST", f"{url}/v2/entries:list", body=body.to_wire())
        return read_model(ListLogEntriesResponse, answer)

    def project_number(self) -> Steps[int]:
        """Find the number of the project, which the Resource Manager knows."""
        number = self.address.project_number
        if not number:
            url = self.address.of_api("cloudresourcemanager", self.address.resource_manager_endpoint)
            answer = yield self._to("GET", f"{url}/v1/projects/{quote(self.address.project, safe='')}")
            number = str(answer.get("projectNumber") or "")
        if not number.isdecimal():
            raise ServiceError(
                f"the number of project {self.address.project!r} is not known (Resource Manager projects.get); "
                "set the extra project_number of the connection"
            )
        return int(number)

    @property
    def _regions(self) -> str:
        return ", ".join(self.address.regions)

    @property
    def _all_places(self) -> list[tuple[str, str]]:
        return [(region, collection) for region in self.address.regions for collection in _COLLECTIONS]

    def _candidates(self, job_id: str) -> list[tuple[str, str]]:
        known = self._places.get(job_id)
        return [known] if known else self._all_places

    def _numbered(self, number: str) -> Steps[tuple[Mapping[str, Any], str, str]]:
        """Find a job: the answer, its region and its collection."""
        for region, collection in self._candidates(number):
            try:
                answer = yield self._request("GET", region, collection, number)
            except JobNotFound:
                continue
            return answer, region, collection
        raise JobNotFound(
            f"there is no job {number!r} of project {self.address.project!r} in {self._regions}"
        )

    def _of_task(self, chosen: str) -> Steps[Job]:
        named = yield from self._named(chosen)
        if not named:
            raise JobNotFound(f"no job of a task has the display name {chosen!r} in {self._regions}")
        return named[0]

    def _named(self, chosen: str) -> Steps[list[Job]]:
        """Find the jobs of tasks with this display name; the first stands for the name."""
        found = yield from self._everywhere(f"jobId={quoted(chosen)}")
        owned = [job for job in found if OWNER_LABEL in (job.labels or {})]
        return sorted(
            owned, key=lambda job: (job.state in _WITHOUT_RESULT, str(job.create_time), job.job_id or "")
        )

    def _everywhere(self, filter_: str) -> Steps[list[Job]]:
        jobs: list[Job] = []
        for region, collection in self._all_places:
            jobs += yield from self._all(region, collection, filter_)
        return jobs

    def _all(self, region: str, collection: str, filter_: str) -> Steps[list[Job]]:
        jobs: list[Job] = []
        token = ""
        while True:
            answer = yield self._list_request(region, collection, vertex_filter(filter_), 0, token)
            jobs += self._jobs(answer, region, collection)
            token = str(answer.get("nextPageToken") or "")
            if not token:
                return jobs

    def _jobs(self, answer: Any, region: str, collection: str) -> list[Job]:
        listed = answer.get(collection) or [] if isinstance(answer, Mapping) else []
        jobs = []
        for each in listed:
            try:
                jobs.append(self._seen(each, region, collection))
            except ServiceError as error:  # whoever wants this one asks for it, and is told
                _log.warning("%s; it is left out", error)
        return jobs

    def _seen(self, answer: Any, region: str, collection: str) -> Job:
        if not isinstance(answer, Mapping) or not answer.get("name"):
            raise TransportError(f"the service answered with what is no job of {collection}: {answer!r:.200}")
        try:
            job = job_of(answer)
        except ValidationError as error:
            raise ServiceError(f"job {answer['name']} cannot be read: {error}") from error
        if len(self._places) >= _MAX_PLACES:
            self._places.clear()
        self._places[job.job_id or ""] = (region, collection)
        return job

    def _list_request(
        self, region: str, collection: str, filter_: str, page_size: int, page_token: str
    ) -> httpx.Request:
        params = {"pageSize": str(page_size or ""), "filter": filter_, "pageToken": page_token}
        return self._request("GET", region, collection, params={k: v for k, v in params.items() if v})

    def _request(
        self,
        method: str,
        region: str,
        collection: str,
        rest: str = "",
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> httpx.Request:
        project = quote(self.address.project, safe="")
        path: Sequence[str] = ("v1", "projects", project, "locations", region, collection)
        url = "/".join([self.address.of_region(region), *path, *([rest] if rest else [])])
        return self._to(method, url, body=body, params=params)

    def _to(
        self,
        method: str,
        url: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> httpx.Request:
        return httpx.Request(method, url, json=body, params=params, headers=self.headers)


def _is_number(job_id: str) -> bool:
    return job_id.isascii() and job_id.isdecimal()
