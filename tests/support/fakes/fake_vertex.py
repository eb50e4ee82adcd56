"""
Vertex AI's training API in memory, behind httpx's mock transport.

It has enough of the API for hooks, operators and triggers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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
_ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


class FakeVertex:
    """
    Keeps jobs of all regions, and log lines; each request may be answered by a fault instead.

    :param seconds: its clock, which begins at ``EPOCH``.
    :param faults: for each coming request a response, an exception, or ``None`` for the real answer.
    """

    def __init__(self, seconds: Callable[[], float] = lambda: 0.0) -> None:
        #: By the name, without the slash at its beginning.
        self.jobs: dict[str, dict[str, Any]] = {}
        self.entries: list[dict[str, Any]] = []
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

    def move(self, number: str, state: str, **changes: Any) -> None:
        """Give a job another state; ``changes`` are more of its fields."""
        self._of_number(number).update(**self._moved(state), **changes)

    def write(self, number: str, text: str, task_name: str = "workerpool0-0") -> None:
        """Store a line of a job's log."""
        now = self._now()
        self.entries.append(
            {
                "logName": f"projects/{PROJECT}/logs/{task_name}",
                "resource": {
                    "type": "ml_job",
                    "labels": {"job_id": number, "task_name": task_name, "project_id": PROJECT},
                },
                "timestamp": now,
                "receiveTimestamp": now,
                "severity": "INFO",
                "insertId": f"{len(self.entries):06d}",
                "labels": {
                    "ml.googleapis.com/job_id": number,
                    "ml.googleapis.com/task_name": task_name,
                },
                "textPayload": text,
            }
        )

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
            return self._list_entries(json.loads(request.content))
        if path == f"/v1/projects/{PROJECT}":
            project = {"projectId": PROJECT, "projectNumber": PROJECT_NUMBER, "name": PROJECT}
            return httpx.Response(200, json={**project, "lifecycleState": "ACTIVE"})
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
            self.jobs[name].update(self._moved("CANCELLED"))
            return httpx.Response(200, json={})
        return httpx.Response(200, json=self.jobs[name])

    def _store(self, job: dict[str, Any], region: str, collection: str, state: str) -> str:
        number = str(_FIRST_NUMBER + len(self.jobs))
        name = f"projects/{PROJECT}/locations/{region}/{collection}/{number}"
        self.jobs[name] = {"name": name, "createTime": self._now(), **self._moved(state)} | job
        return number

    def _moved(self, state: str) -> dict[str, str]:
        """Return the fields of a job that has just got to a state."""
        now = self._now()
        return {
            "state": f"JOB_STATE_{state}",
            "updateTime": now,
            **({"startTime": now} if state == "RUNNING" else {}),
            **({"endTime": now} if state in _ENDED else {}),
        }

    def _now(self) -> str:
        return format_timestamp(datetime.fromtimestamp(EPOCH.timestamp() + self._seconds(), UTC))

    def _of_number(self, number: str) -> dict[str, Any]:
        (found,) = [job for name, job in self.jobs.items() if name.endswith(f"/{number}")]
        return found

    def _list(self, parent: str, collection: str, params: httpx.QueryParams) -> httpx.Response:
        tree = parse_filter(params.get("filter", ""))
        return _page(
            collection,
            [*reversed(self.jobs.values())],
            lambda job: job["name"].startswith(f"{parent}/") and (tree is None or _fits(job, tree)),
            params.get("pageToken"),
            int(params.get("pageSize") or self.page_size),
        )

    def _list_entries(self, asked: dict[str, Any]) -> httpx.Response:
        tree = parse_filter(asked["filter"])
        return _page(
            "entries",
            self.entries,
            lambda entry: tree is None or _fits_entry(entry, tree),
            asked["pageToken"],
            asked["pageSize"],
        )


def _page(
    key: str,
    rows: Sequence[dict[str, Any]],
    fits: Callable[[dict[str, Any]], bool],
    token: str | None,
    size: int,
) -> httpx.Response:
    """Return a page of the ``rows`` that fit. :param token: where among all of them it begins."""
    places = (place for place in range(int(token or 0), len(rows)) if fits(rows[place]))
    # One more than the page has: whether there is another, and where it begins.
    found = list(islice(places, size + 1))
    page: dict[str, Any] = {key: [rows[place] for place in found[:size]]} if found else {}
    if len(found) > size:
        page["nextPageToken"] = str(found[size])
    return httpx.Response(200, json=page)


def _fits_entry(entry: dict[str, Any], tree: Filter) -> bool:
    match tree:
        case And(operands):
            return all(_fits_entry(entry, operand) for operand in operands)
        case Comparison("resource.type", "=", value):
            return bool(entry["resource"]["type"] == value)
        case Comparison(path, "=", value) if path.startswith("resource.labels."):
            return bool(entry["resource"]["labels"].get(path.removeprefix("resource.labels.")) == value)
    raise AssertionError(f"the fake of Cloud Logging cannot answer {tree}")


def _fits(job: dict[str, Any], tree: Filter) -> bool:
    match tree:
        case Or(operands):
            return any(_fits(job, operand) for operand in operands)
        case And(operands):
            return all(_fits(job, operand) for operand in operands)
        case Comparison(path, ":", "*") if path.startswith("labels."):
            return path.removeprefix("labels.") in job.get("labels", {})
        case Comparison(path, "=", value) if path.startswith("labels."):
            return bool(job.get("labels", {}).get(path.removeprefix("labels.")) == value)
        case Comparison("display_name" | "state" as path, "=", value):
            return bool(job["displayName" if path == "display_name" else path] == value)
    raise AssertionError(f"the fake of Vertex AI cannot answer {tree}")
