"""
Vertex AI's training API in memory, behind httpx's mock transport.

It has enough of the API for hooks, operators and triggers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import httpx

from tests.support.fakes.custom_jobs import make_custom_job
from tests.support.fakes.fake_service import EPOCH, PROJECT, error
from tests.support.fakes.vertex_tuning_jobs import make_tuning_job
from training_api.filtering import And, Comparison, Filter, Or, parse_filter
from training_api.job.labels import OWNER_LABEL
from training_api.wire import format_timestamp

REGION = "us-central1"
CUSTOM, TUNING = "customJobs", "hyperparameterTuningJobs"
PROJECT_NUMBER = "608533675308"
_FIRST_NUMBER = 3958704668489547776
_ENTRY = {
    "logName": f"projects/{PROJECT}/logs/workerpool0-0",
    "resource": {"type": "ml_job", "labels": {"job_id": str(_FIRST_NUMBER)}},
    "timestamp": "2026-11-20T09:00:00Z",
    "insertId": "1",
    "textPayload": "hello",
}


class FakeVertex:
    """
    Keeps jobs of all regions; each request may be answered by a fault instead.

    :param seconds: its clock, which begins at ``EPOCH``.
    :param faults: for each coming request a response, an exception, or ``None`` for the real answer.
    """

    def __init__(self, seconds: Callable[[], float] = lambda: 0.0) -> None:
        #: By the name, without the slash at its beginning.
        self.jobs: dict[str, dict[str, Any]] = {}
        self.faults: list[httpx.Response | Exception | None] = []
        self.requests: list[httpx.Request] = []
        self.page_size = 100
        self._seconds = seconds

    def add(
        self,
        display_name: str = "digits_1",
        state: str = "PENDING",
        *,
        region: str = REGION,
        collection: str = CUSTOM,
        owner: str = "me",
        **changes: Any,
    ) -> str:
        """Store a job; return its number."""
        make = make_custom_job if collection == CUSTOM else make_tuning_job
        labels = {OWNER_LABEL: owner} if owner else {}
        job = make() | {"displayName": display_name, "labels": labels, **changes}
        return self._store(job, region, collection, state)

    def move(self, number: str, state: str) -> None:
        """Give a job another state."""
        self._of_number(number)["state"] = f"JOB_STATE_{state}"

    def states(self) -> dict[str, str]:
        """Return the state of each job, by its number."""
        return {
            name.rpartition("/")[2]: job["state"].removeprefix("JOB_STATE_")
            for name, job in self.jobs.items()
        }

    @property
    def asked(self) -> list[str]:
        """What was asked for: the methods, and the ends of the paths."""
        return [
            f"{request.method} {request.url.path.partition('/locations/')[2] or request.url.path}"
            for request in self.requests
        ]

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer as the service would."""
        self.requests.append(request)
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, Exception):
            raise fault
        return fault if fault is not None else self._answer(request)

    async def handle_async(self, request: httpx.Request) -> httpx.Response:
        return self.handle(request)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path == "/v2/entries:list":
            return httpx.Response(200, json={"entries": [_ENTRY]})
        if path == f"/v1/projects/{PROJECT}":
            return httpx.Response(200, json={"projectNumber": PROJECT_NUMBER})
        name, _, verb = path.removeprefix("/v1/").partition(":")
        if name.endswith((CUSTOM, TUNING)):
            *_, region, collection = name.split("/")
            if request.method == "GET":
                return self._list(name, collection, request.url.params)
            number = self._store(json.loads(request.content), region, collection, "PENDING")
            return httpx.Response(200, json=self._of_number(number))
        if name not in self.jobs:
            return error(404, "NOT_FOUND", f"The {name} does not exist.")
        if verb == "cancel":
            self.jobs[name]["state"] = "JOB_STATE_CANCELLED"
            return httpx.Response(200, json={})
        return httpx.Response(200, json=self.jobs[name])

    def _store(self, job: dict[str, Any], region: str, collection: str, state: str) -> str:
        number = str(_FIRST_NUMBER + len(self.jobs))
        name = f"projects/{PROJECT}/locations/{region}/{collection}/{number}"
        now = datetime.fromtimestamp(EPOCH.timestamp() + self._seconds(), UTC)
        stored = {"name": name, "state": f"JOB_STATE_{state}", "createTime": format_timestamp(now)}
        self.jobs[name] = stored | job
        return number

    def _of_number(self, number: str) -> dict[str, Any]:
        (found,) = [job for name, job in self.jobs.items() if name.endswith(f"/{number}")]
        return found

    def _list(self, parent: str, collection: str, params: httpx.QueryParams) -> httpx.Response:
        tree = parse_filter(params.get("filter", ""))
        jobs = [*reversed(self.jobs.values())]
        start, size = int(params.get("pageToken") or 0), int(params.get("pageSize") or self.page_size)
        fits = (
            place
            for place in range(start, len(jobs))
            if jobs[place]["name"].startswith(f"{parent}/") and (tree is None or _fits(jobs[place], tree))
        )
        # One more than the page has: whether there is another, and where it begins.
        places = list(islice(fits, size + 1))
        page: dict[str, Any] = {collection: [jobs[place] for place in places[:size]]} if places else {}
        if len(places) > size:
            page["nextPageToken"] = str(places[size])
        return httpx.Response(200, json=page)


def _fits(job: dict[str, Any], tree: Filter) -> bool:
    match tree:
        case Or(operands):
            return any(_fits(job, operand) for operand in operands)
        case And(operands):
            return all(_fits(job, operand) for operand in operands)
        case Comparison(path, ":", "*") if path.startswith("labels."):
            return path.removeprefix("labels.") in job["labels"]
        case Comparison(path, "=", value) if path.startswith("labels."):
            return bool(job["labels"].get(path.removeprefix("labels.")) == value)
        case Comparison("display_name" | "state" as path, "=", value):
            return bool(job["displayName" if path == "display_name" else path] == value)
    raise AssertionError(f"the fake of Vertex AI cannot answer {tree}")
