"""A training service with a job of each of two DAGs, and rights to read one of the DAGs."""

from __future__ import annotations

import json
from typing import Any

import httpx

from container_training.dashboard.airflow_side.rights import Rights
from tests.support.fakes.fake_service import error
from tests.support.fakes.job_rows import make_row
from training_api.dialects.ml_v1.job_rows import JobRow, SearchJobsResponse
from training_api.states import JobState

MINE, THEIRS = {"airflow-dag": "mine"}, {"airflow-dag": "theirs"}
RIGHTS = Rights(
    known=frozenset({"mine", "theirs"}),
    readable=frozenset({"mine"}),
    reads_all=False,
    may_edit=lambda dag_id: dag_id == "mine",
)


class ServiceOfTwoDags:
    """
    A service with a job of each of two DAGs; keeps what it was asked.

    :ivar jobs_found: what a search finds; ``None``: all jobs.
    :ivar more_of_jobs: fields of every job's detail, beside its row and its name.
    :ivar answers: to whatever else is asked, by the end of the path.
    """

    def __init__(self) -> None:
        self.searches: list[dict[str, Any]] = []
        self.cancelled: list[str] = []
        self.jobs = [make_row(job_id="of_mine", labels=MINE), make_row(job_id="of_theirs", labels=THEIRS)]
        self.jobs_found: list[JobRow] | None = None
        self.more_of_jobs: dict[str, Any] = {}
        self.answers: dict[str, Any] = {"/entries:list": {}, "/timeline": {"spans": []}}
        self.is_down = False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.is_down:
            raise httpx.ConnectError("refused", request=request)
        path = request.url.path
        if path.endswith("jobs:search"):
            self.searches.append(json.loads(request.content))
            states = {JobState.RUNNING: 2}
            found = SearchJobsResponse(
                jobs=self.jobs if self.jobs_found is None else self.jobs_found,
                total=2,
                states=states,
                next_page_token="t",
            )
            return httpx.Response(200, json=found.to_wire())
        if path.endswith(":cancel"):
            self.cancelled.append(path)
            return httpx.Response(200, json={})
        for ending, answer in self.answers.items():
            if path.endswith(ending):
                return httpx.Response(200, json=answer)
        for job in self.jobs:
            if path.endswith(f"/{job.job_id}"):
                body = {"job": job.to_wire(), "name": f"projects/p/jobs/{job.job_id}"}
                return httpx.Response(200, json=body | self.more_of_jobs)
        return error(404, "NOT_FOUND", f"the service's own words on {path}")
