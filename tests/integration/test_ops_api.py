"""The ops API over HTTP: what a dashboard reads of a service that runs jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from container_engines.memory.engine import Behaviour
from container_engines.memory.scripted_reports import ScriptedReport
from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.support.bed.job_watch import until_state
from tests.support.waiting import wait_until
from training_api.clients.fleet import OpsClient
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.errors import JobNotFound, ServiceError
from training_api.fleet.wire import SearchJobsRequest, SpanKind
from training_api.states import JobState

PROJECT = "demo-project"
TOKEN = "token-of-ada-0123456789"
REPORTS = tuple(
    ScriptedReport(after_seconds=1, tag="accuracy", step=step, value=step / 10) for step in range(3)
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    """A service whose one job has run, been sampled, reported and ended."""
    behaviour = Behaviour(run_seconds=5, reports=REPORTS, cpu_cores=1.5)
    with run_service(tmp_path_factory.mktemp("service"), behaviour) as service:
        with TrainingClient(service.endpoint, PROJECT) as training:
            config = ReplicaConfig(image_uri=IMAGE)
            training.create_job(
                Job(
                    job_id="job",
                    labels={"airflow-dag": "d"},
                    training_input=TrainingInput(master_config=config),
                )
            )
            until_state(training, "job", JobState.RUNNING)
            service.engine.advance(2)
            ops = OpsClient(service.endpoint, PROJECT)
            wait_until(lambda: ops.usage("job").series, "the job's usage is there")
            wait_until(lambda: ops.curves("job").curves, "the job's curves are there")
            service.engine.advance(5)
            until_state(training, "job", JobState.SUCCEEDED)
            ops.close()
        yield service


@pytest.fixture
def ops(service: LiveService) -> Iterator[OpsClient]:
    client = OpsClient(service.endpoint, PROJECT)
    yield client
    client.close()


def test_search_finds_the_job_with_its_times(ops: OpsClient) -> None:
    found = ops.search_jobs(SearchJobsRequest(filter="state=SUCCEEDED", dags=["d"]))

    (row,) = found.jobs
    assert (row.job_id, row.state, found.total, found.states) == (
        "job",
        JobState.SUCCEEDED,
        1,
        {JobState.SUCCEEDED: 1},
    )
    assert row.prepare_time
    assert row.start_time
    assert row.end_time
    assert row.create_time <= row.prepare_time <= row.start_time <= row.end_time
    assert row.billed_seconds == pytest.approx((row.end_time - row.start_time).total_seconds())


def test_timeline_usage_and_curves_of_a_job(ops: OpsClient) -> None:
    spans = ops.timeline("job").spans
    (series,) = ops.usage("job").series
    (curve,) = ops.curves("job").curves

    # In no order here: the engine's clock is a virtual one.
    assert {(span.kind, span.exit_code) for span in spans} == {(SpanKind.PULL, None), (SpanKind.RUN, 0)}
    assert series.replica == "master-replica-0"
    assert series.cpu_limit
    assert series.memory_limit_bytes
    assert len(series.times) == len(series.cpu_cores) == len(series.memory_bytes) > 0
    assert (curve.tag, curve.trial_id, curve.steps, curve.values) == (
        "accuracy",
        "",
        [0, 1, 2],
        [0.0, 0.1, 0.2],
    )


def test_fleet_has_room_and_a_queue(ops: OpsClient) -> None:
    fleet = ops.fleet()

    assert fleet.capacity is not None
    assert fleet.capacity.cpus > 0
    assert fleet.largest is not None
    assert 0 < fleet.largest.cpus <= fleet.capacity.cpus
    assert fleet.used is not None
    assert fleet.used.replicas == 0
    assert (fleet.queue_length, fleet.oldest_queued_time) == (0, None)


def test_version_stays_while_nothing_changes(ops: OpsClient) -> None:
    assert ops.version() == ops.version() != ""


def test_what_is_not_there_or_cannot_be_read_is_an_error(ops: OpsClient) -> None:
    for ask in (ops.timeline, ops.usage, ops.curves):
        with pytest.raises(JobNotFound, match="absent"):
            ask("absent")
    with pytest.raises(ServiceError, match="filter"):
        ops.search_jobs(SearchJobsRequest(filter="((("))


def test_a_service_that_wants_tokens_answers_nobody_without_one(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    ada = {"principal": "user:ada@example.com", "token": TOKEN}
    tokens.write_text(json.dumps({"principals": [ada]}))
    tokens.chmod(0o600)
    with run_service(tmp_path, require_auth=True, tokens_file=tokens) as service:
        nobody = OpsClient(service.endpoint, PROJECT)
        stranger = OpsClient(service.endpoint, PROJECT, headers={"Authorization": f"Bearer {TOKEN}"})
        for client in (nobody, stranger):
            asks = [client.fleet, client.version, lambda c=client: c.search_jobs(SearchJobsRequest())]
            for ask in [
                *asks,
                *(lambda m=m: m("job") for m in (client.timeline, client.usage, client.curves)),
            ]:
                with pytest.raises(ServiceError) as refused:
                    ask()
                assert refused.value.code == (401 if client is nobody else 403)
            client.close()
