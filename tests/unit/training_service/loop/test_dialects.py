"""Jobs of several dialects side by side: each in its own words, and no other's list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from container_engines.memory.engine import Behaviour
from tests.support.fakes.studies import LEARNING_RATE, search
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.causes import Cause
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.errors import JobNotFound
from training_api.job.dialect import JobField
from training_api.job.job_spec import JobSpec
from training_api.job.restarts import RestartScope
from training_api.states import JobState
from training_service.model.records import JobRecord
from training_service.studies.output import TuningOutputs
from training_service.use_cases.jobs import Jobs

REQUEST = {"asked": "in other words"}
OTHER = replace(
    ML_V1,
    name="other",
    environment=lambda context: {"OTHER_JOB": f"{context.request['asked']} {context.trial_id}".strip()},
    variables=frozenset({"OTHER_JOB"}),
    host_name=lambda job_id, replica: f"other-{replica.role}-{replica.index}",
    trial=lambda spec, request, number, given: (
        replace(spec, study=None, output_dir=f"{number}"),
        {**request, "trial": str(number)},
    ),
    restart_scope=lambda failure: RestartScope.REPLICA if failure.exit_code == 77 else RestartScope.NONE,
    failure_text=lambda failure: f"{failure.replica.role} failed: {failure.exit_code}.",
    fields=ML_V1.fields | {"max_running": "spec.limits.timeout", "study.metric_tag": "spec.metric"},
    filter_fields={"id": JobField.JOB_ID},
)


@pytest.fixture
def both(world: World) -> World:
    world.dialects = {each.name: each for each in (ML_V1, OTHER)}
    world.max_replicas = 4
    world.restart()
    return world


def jobs_of_other(world: World) -> Jobs:
    outputs = TuningOutputs(world.trials, world.measurements)
    return Jobs(OTHER, world.store, lambda: None, lambda spec: None, outputs, world.engine.clock)


def other_spec(job_id: str, **fields: Any) -> JobSpec:
    training = TrainingInput(**{"master_config": ReplicaConfig(image_uri=IMAGE)} | fields)
    spec = job_spec_from_wire(PROJECT, Job(job_id=job_id, training_input=training))
    return replace(spec, dialect="other")


def submit(world: World, job_id: str = "others", **fields: Any) -> None:
    jobs_of_other(world).create(other_spec(job_id, **fields), REQUEST)


def record(world: World, job_id: str = "others") -> JobRecord:
    return world.store.get(PROJECT, job_id)


def test_each_dialect_sees_its_own_jobs_only(both: World) -> None:
    submit(both)
    both.submit("mine")

    assert [job.job_id for job in both.jobs.list_page(PROJECT).jobs or []] == ["mine"]
    page = jobs_of_other(both).list_page(PROJECT, "id=others OR id=mine")
    assert [view.record.spec.job_id for view in page.jobs] == ["others"]
    for ask in (both.jobs.get, both.jobs.cancel):
        with pytest.raises(JobNotFound):
            ask(PROJECT, "others")
    assert record(both).state is JobState.QUEUED


def test_a_row_has_its_dialect_and_its_request(both: World) -> None:
    submit(both)

    found = record(both)

    assert (found.spec.dialect, found.request) == ("other", REQUEST)


def test_a_container_is_told_what_its_dialect_says(both: World) -> None:
    both.add_image(Behaviour(run_seconds=100))
    submit(both)
    both.submit("mine")
    both.settle()

    launches = {launch.job_id: launch for launch in both.engine.launches()}

    assert launches["others"].environment["OTHER_JOB"] == "in other words"
    assert launches["others"].host_name == "other-master-0"
    assert "CLUSTER_SPEC" not in launches["others"].environment
    assert "CLUSTER_SPEC" in launches["mine"].environment


def test_a_trial_is_made_by_the_rules_of_its_dialect(both: World) -> None:
    both.add_image(Behaviour(run_seconds=100))
    submit(both, hyperparameters=search(max_trials=1, params=[LEARNING_RATE]))
    both.settle()

    (trial,) = (job for job in both.store.list_active() if job.trial)
    (launch,) = both.engine.launches()

    assert (trial.spec.output_dir, trial.spec.dialect) == ("1", "other")
    assert trial.request == {**REQUEST, "trial": "1"}
    assert launch.environment["OTHER_JOB"] == "in other words 1"


def test_a_failure_is_told_in_the_words_of_its_dialect(both: World) -> None:
    both.add_image(Behaviour(run_seconds=1, exit_code=3))
    submit(both)
    both.submit("mine")
    both.settle()
    both.engine.advance(10)
    both.settle()

    reason = record(both).reason

    assert reason is not None
    assert (reason.cause, reason.message) == (Cause.PROGRAM_ERROR, "master failed: 3.")
    assert both.get("mine").error_message == "The replica master 0 exited with a non-zero status of 3."


def test_a_limit_is_named_as_in_its_requests(both: World) -> None:
    both.add_image(Behaviour(run_seconds=100))
    submit(both, scheduling={"max_running_time": "5s"})
    both.settle()
    both.engine.advance(6)
    both.settle()

    reason = record(both).reason

    assert reason is not None
    assert reason.message == "The job was cancelled because it ran longer than limits.timeout (5s)."


def test_a_job_of_a_dialect_that_is_not_spoken_ends_and_stops_no_other(world: World) -> None:
    world.add_image(Behaviour(run_seconds=100))
    submit(world)
    world.submit("mine")

    world.settle()

    reason = record(world).reason
    assert record(world).state is JobState.FAILED
    assert reason is not None
    assert reason.cause is Cause.UNREADABLE
    assert "does not speak the dialect 'other'" in reason.message
    assert world.state("mine") is JobState.RUNNING
