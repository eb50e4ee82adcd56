"""From the connections that a plan names to the places where it looks."""

from __future__ import annotations

import json

import pytest

from container_training.hooks.service_address import InvalidConnection
from container_training.runtime.planning import plan_sources
from container_training.work.plan.plan import PlanInputs

INPUTS = PlanInputs(training_conn_id="my_training", docker_conn_id=None, docker_url="unix:///absent.sock")


def connect(monkeypatch: pytest.MonkeyPatch, **extra: object) -> None:
    connection = {"conn_type": "container_training", "host": "training.test", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_MY_TRAINING", json.dumps(connection))


@pytest.mark.parametrize(
    ("bucket", "job_dir"), [("gs://b/jobs", "gs://b/jobs/{job_id}"), ("", None), (None, None)]
)
def test_a_plan_looks_where_the_connection_says(
    monkeypatch: pytest.MonkeyPatch, bucket: str | None, job_dir: str | None
) -> None:
    connect(monkeypatch, project="demo", job_bucket=bucket, prices={"n1-standard-4": 0.5})

    with plan_sources(INPUTS) as sources:
        assert (sources.endpoint, sources.project) == ("http://training.test", "demo")
        assert sources.prices.per_second == {"n1-standard-4": 0.5}
        assert sources.default_job_dir == job_dir


def test_the_clients_are_closed_when_the_plan_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, project="demo")

    with plan_sources(INPUTS) as sources:
        pass

    assert sources.training._http.is_closed
    assert sources.policies._http.is_closed


def test_no_engine_is_asked_for_unless_an_image_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, project="demo")

    with plan_sources(INPUTS):
        pass  # there is no engine at that address


def test_a_connection_without_a_project_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch)

    with pytest.raises(InvalidConnection, match=r"extra\.project"), plan_sources(INPUTS):
        pass
