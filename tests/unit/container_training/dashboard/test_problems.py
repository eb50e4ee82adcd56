"""What went wrong, for people: what it is, and what to do."""

from __future__ import annotations

import asyncio
import json

import pytest
from fastapi import Request

from container_training.dashboard.airflow_side.connections import UnknownConnection
from container_training.dashboard.problems import _ADVICE, answer_problem, problem_of
from container_training.dashboard.service_side.job_files import FolderUnreadable
from training_api import errors
from training_api.errors import (
    AccessDenied,
    InvalidFilter,
    JobFailed,
    JobNotFound,
    ServiceError,
    ServiceUnavailable,
    Throttled,
    TrainingError,
    TransportError,
)


def throttled() -> Throttled:
    return Throttled("too often", code=429, status="RESOURCE_EXHAUSTED")


def test_every_problem_has_a_status_and_advice() -> None:
    for kind, status, advice in _ADVICE:
        assert 400 <= status < 600, kind
        assert advice.endswith(".")
    status, problem = problem_of(throttled())
    assert status == 503
    assert problem["message"] == "too often"


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (UnknownConnection("c"), 404, "Choose a connection"),
        (InvalidFilter("no such field"), 400, "Change the filter"),
        (JobNotFound("no job", code=404, status="NOT_FOUND"), 404, "jobs of DAGs that you may not read"),
        (AccessDenied("no", code=401, status="UNAUTHENTICATED"), 502, "a token that the service knows"),
        (FolderUnreadable("gs://b/x cannot be read"), 502, "google_cloud_default"),
        (TransportError("no answer"), 503, "asks again by itself"),
        (ServiceUnavailable("busy", code=503, status="UNAVAILABLE"), 503, "asks again by itself"),
        (ServiceError("odd", code=418, status="UNKNOWN"), 502, "The service's log"),
        (JobFailed("digits", "FAILED", ""), 500, "The log of Airflow's API server"),
    ],
)
def test_a_problem_is_told_by_the_nearest_of_its_kinds(error: TrainingError, status: int, words: str) -> None:
    found, problem = problem_of(error)

    assert (found, problem["message"]) == (status, str(error))
    assert words in problem["advice"]


def test_no_advice_is_hidden_behind_that_of_a_wider_kind() -> None:
    for place, (kind, _, _) in enumerate(_ADVICE):
        wider = [above for above, _, _ in _ADVICE[:place] if issubclass(kind, above)]
        assert not wider, f"{kind.__name__} is never reached: {wider}"


def test_every_error_of_the_project_can_be_told() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TrainingError)
    ]

    assert all(any(issubclass(kind, told) for told, _, _ in _ADVICE) for kind in kinds)


def test_the_answer_has_the_status_and_the_words() -> None:
    answer = asyncio.run(answer_problem(Request({"type": "http"}), throttled()))

    assert answer.status_code == 503
    assert json.loads(answer.body)["message"] == "too often"
