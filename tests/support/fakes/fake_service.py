"""
A training service in memory, behind httpx's mock transport.

It has enough of the API for hooks, operators and triggers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from training_api.dialects.ml_v1.resources import Job
from training_api.filtering import And, Comparison, Filter, Or, parse_filter
from training_api.states import JobState
from training_api.wire import format_timestamp

EPOCH = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
PROJECT = "demo"
AGENT = "service-1@cloud-ml.google.com.iam.gserviceaccount.com"
_CURSOR = re.compile(r'receiveTimestamp>"([^"]+)"')
_TASK = re.compile(r'task_name="([^"]+)"')


def make_job(**changes: Any) -> Job:
    """Return a job of the service; ``changes`` are fields of ``Job``."""
    fields: dict[str, Any] = {
        "job_id": "digits_1",
        "state": JobState.QUEUED,
        "create_time": EPOCH,
        "training_input": {
            "region": "us-central1",
            "masterConfig": {"imageUri": "127.0.0.1:5000/demo/digits:1"},
            "jobDir": "gs://bucket/jobs/digits_1",
        },
    }
    return Job.model_validate(fields | changes)


class FakeService:
    """
    Keeps jobs and log lines; each request may be answered by a fault instead.

    :param faults: for each coming request a response, an exception, or ``None`` for the real answer.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.entries: list[dict[str, Any]] = []
        self.faults: list[httpx.Response | Exception | None] = []
        self.requests: list[tuple[str, str]] = []
        self.filters: list[str] = []
        self.page_size = 1000
        self.on_request: Callable[[], None] = lambda: None
        self.before_get: Callable[[], None] = lambda: None
        self.lose_next_answer_to_create = False

    def add(self, job: Job) -> None:
        self.jobs[job.job_id or ""] = job

    def move(self, job_id: str, state: JobState, error_message: str | None = None) -> None:
        self.jobs[job_id] = self.jobs[job_id].model_copy(
            update={"state": state, "error_message": error_message}
        )

    def write(self, job_id: str, text: str | dict[str, Any], **fields: Any) -> None:
        """Store one log line; ``fields``: severity, task_name, timestamp, trial_id."""
        received = EPOCH + timedelta(seconds=len(self.entries) + 1)
        payload = {"textPayload": text} if isinstance(text, str) else {"jsonPayload": text}
        self.entries.append(
            {
                "logName": f"projects/{PROJECT}/logs/ml.googleapis.com",
                "resource": {
                    "type": "ml_job",
                    "labels": {"job_id": job_id, "task_name": fields.get("task_name", "master-replica-0")},
                },
                "timestamp": format_timestamp(fields.get("timestamp", received)),
                "receiveTimestamp": format_timestamp(received),
                "severity": fields.get("severity", "INFO"),
                "labels": {"ml.googleapis.com/trial_id": fields["trial_id"]} if "trial_id" in fields else {},
                "insertId": f"{len(self.entries):06d}",
                **payload,
            }
        )

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer as the service would."""
        self.requests.append((request.method, request.url.path))
        self.on_request()
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, Exception):
            raise fault
        return fault if fault is not None else self._answer(request)

    async def handle_async(self, request: httpx.Request) -> httpx.Response:
        return self.handle(request)

    def count(self, method: str, ending: str) -> int:
        """Return how many requests of ``method`` had a path that ends so."""
        return sum(1 for seen, path in self.requests if seen == method and path.endswith(ending))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith(":getConfig"):
            return httpx.Response(200, json={"serviceAccount": AGENT})
        if path == "/v2/entries:list":
            return self._list_entries(json.loads(request.content))
        if request.method == "POST" and path.endswith("/jobs"):
            return self._create(Job.model_validate_json(request.content))
        if path.endswith("/jobs"):
            return self._list(request.url.params)
        job_id, _, verb = path.rsplit("/", 1)[-1].partition(":")
        if verb == "":
            self.before_get()
        if job_id not in self.jobs:
            return error(404, "NOT_FOUND", f"Field: name Error: job {job_id!r} was not found")
        if verb == "cancel":
            self.move(job_id, JobState.CANCELLING)
            return httpx.Response(200, json={})
        job = self.jobs[job_id].to_wire()
        if path.startswith("/ops/"):
            job = {"job": job, "name": f"projects/{PROJECT}/jobs/{job_id}"}
        return httpx.Response(200, json=job)

    def _create(self, job: Job) -> httpx.Response:
        if job.job_id in self.jobs:
            return error(
                409,
                "ALREADY_EXISTS",
                f"Field: job.job_id Error: A job with this id already exists: {job.job_id}",
            )
        self.add(job.model_copy(update={"state": JobState.QUEUED, "create_time": EPOCH}))
        if self.lose_next_answer_to_create:
            self.lose_next_answer_to_create = False
            raise httpx.ReadError("connection reset")
        return httpx.Response(200, json=self.jobs[job.job_id or ""].to_wire())

    def _list(self, params: httpx.QueryParams) -> httpx.Response:
        """
        Answer with the newest job first, as the service does.

        Jobs of a test have one time of creation, so the newest is the last.
        """
        self.filters.append(params.get("filter", ""))
        tree = parse_filter(params.get("filter", ""))
        found = [job for job in reversed(self.jobs.values()) if tree is None or _fits(job, tree)]
        start, size = int(params.get("pageToken") or 0), int(params.get("pageSize") or 20)
        page: dict[str, Any] = {"jobs": [job.to_wire() for job in found[start : start + size]]}
        if start + size < len(found):
            page["nextPageToken"] = str(start + size)
        return httpx.Response(200, json=page if found else {})

    def _list_entries(self, body: dict[str, Any]) -> httpx.Response:
        after, task = _CURSOR.search(body["filter"]), _TASK.search(body["filter"])
        found = [
            entry
            for entry in sorted(
                self.entries,
                key=lambda entry: (entry["timestamp"], entry["insertId"]),
                reverse=body.get("orderBy") == "timestamp desc",
            )
            if f'job_id="{entry["resource"]["labels"]["job_id"]}"' in body["filter"]
            and (not after or entry["receiveTimestamp"] > after[1])
            and (not task or entry["resource"]["labels"]["task_name"] == task[1])
        ]
        start = int(body.get("pageToken") or 0)
        page = {"entries": found[start : start + self.page_size]}
        if start + self.page_size < len(found):
            page["nextPageToken"] = str(start + self.page_size)  # type: ignore[assignment]
        return httpx.Response(200, json=page)


def _fits(job: Job, tree: Filter) -> bool:
    match tree:
        case Or(operands):
            return any(_fits(job, operand) for operand in operands)
        case And(operands):
            return all(_fits(job, operand) for operand in operands)
        case Comparison(path, "=", value) if path.startswith("labels."):
            return (job.labels or {}).get(path.removeprefix("labels.")) == value
        case Comparison("jobId", "=", value):
            return job.job_id == value
        case Comparison("state", "=", value):
            return job.state == value
        case Comparison("startTime" | "endTime" as path, ">=", value):
            moment = job.start_time if path == "startTime" else job.end_time
            return moment is not None and moment >= datetime.fromisoformat(value)
    raise AssertionError(f"the fake service cannot answer {tree}")


def error(code: int, status: str, message: str, **headers: str) -> httpx.Response:
    """Return an error in the API's form."""
    body = {"error": {"code": code, "status": status, "message": message}}
    return httpx.Response(code, json=body, headers=headers)
