"""One row that cannot be read ends as a FAILED job with the reason, and stops no other."""

from __future__ import annotations

import json

import pytest

from container_engines.base import EngineView
from container_engines.memory.engine import Behaviour
from tests.support.fakes.studies import Tuning
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.causes import Cause
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.ml_v1.job_rows import SearchJobsResponse
from training_api.dialects.ml_v1.resources import Job
from training_api.dialects.registry import DIALECTS
from training_api.fleet.wire import SearchJobsRequest
from training_api.states import JobState
from training_service.store.database import writing
from training_service.store.jobs.job_search import JobSearch

#: What a column may have come to, so that the job cannot run.
BROKEN = {
    "spec": [
        "{}",
        "[]",
        "null",
        "{",
        '{"form": 99}',
        '{"form": 1}',
        '{"form": 2, "roles": []}',
        '{"form": 2}',
    ],
    "attempts": ["[]", "{"],
    "images": ["3"],
    "labels": ["null", "["],
}


@pytest.fixture
def world(world: World) -> World:
    world.max_replicas = 4
    world.restart()
    world.add_image(Behaviour(run_seconds=100))
    return world


def write(world: World, job_id: str, **columns: str) -> None:
    """Write into a job's row by hand, and have the service read it anew."""
    with writing(world.database).begin() as connection:
        for name, text in columns.items():
            update = f"UPDATE jobs SET {name} = ? WHERE job_id = ?"  # noqa: S608  # names of this file
            connection.exec_driver_sql(update, (text, job_id))
    world.restart()


def run_two(world: World) -> None:
    for job_id in ("broken", "other"):
        world.submit(job_id)
    world.settle()


def end(world: World) -> None:
    world.engine.advance(200)
    world.settle()


def cause_of(world: World, job_id: str) -> Cause | None:
    reason = world.store.get(PROJECT, job_id).reason
    return reason and reason.cause


def test_a_request_with_a_field_of_another_version_stops_no_job(world: World) -> None:
    run_two(world)
    request = {"masterConfig": {"imageUri": IMAGE}, "fieldOfAnotherVersion": True}

    write(world, "broken", request=json.dumps(request))
    end(world)

    assert [job.job_id for job in world.jobs.list_page(PROJECT).jobs or []] == ["other", "broken"]
    assert world.state("other") is JobState.SUCCEEDED
    # What it runs is stored beside the request, and can be read.
    assert world.state("broken") is JobState.SUCCEEDED


@pytest.mark.parametrize(
    ("column", "text"), [(column, text) for column, texts in BROKEN.items() for text in texts]
)
def test_a_row_that_cannot_be_read_fails_its_job_and_no_other(world: World, column: str, text: str) -> None:
    run_two(world)
    write(world, "broken", **{column: text})

    world.settle()
    others = [launch.job_id for launch in world.engine.launches()]
    end(world)

    job = world.get("broken")
    assert job.state is JobState.FAILED
    assert job.end_time is not None
    assert "cannot be read as the service has stored it" in (job.error_message or "")
    assert cause_of(world, "broken") is Cause.UNREADABLE
    assert others == ["other"]
    assert world.state("other") is JobState.SUCCEEDED
    assert world.engine.observe() == EngineView()


def test_the_reason_is_in_the_message_and_in_the_log_of_the_job(world: World) -> None:
    run_two(world)
    spec = {"form": 2, "roles": [{"role": "master", "image": IMAGE, "machine": "n9-huge"}]}

    write(world, "broken", spec=json.dumps(spec))
    world.settle()

    message = world.get("broken").error_message or ""
    assert message.endswith("and did not go on: there is no machine type 'n9-huge'")
    assert f"Job failed: {message}" in world.messages("broken")


def test_a_job_that_cannot_be_read_is_counted_with_its_cause(world: World) -> None:
    counted = {"kind": "job", "cause": "UNREADABLE"}
    run_two(world)
    write(world, "broken", spec="{}")
    before = world.metrics.registry.get_sample_value("training_job_failures_total", counted)

    world.settle()

    after = world.metrics.registry.get_sample_value("training_job_failures_total", counted)
    assert (before, after) == (0, 1)


def test_a_job_that_waits_and_cannot_be_read_fails_where_it_stands(world: World) -> None:
    world.submit("broken")
    write(world, "broken", spec="{}")

    world.settle()

    assert world.state("broken") is JobState.FAILED


def test_a_job_that_is_being_cancelled_is_cancelled(world: World) -> None:
    run_two(world)
    world.jobs.cancel(PROJECT, "broken")
    write(world, "broken", spec="{}")

    world.settle()

    assert world.state("broken") is JobState.CANCELLED
    assert cause_of(world, "broken") is Cause.CANCELLED
    assert {launch.job_id for launch in world.engine.launches()} == {"other"}


def test_a_job_whose_end_is_decided_ends_so(world: World) -> None:
    run_two(world)
    world.store.record_outcome(world.store.get(PROJECT, "broken"), JobState.SUCCEEDED)
    write(world, "broken", spec="{}")

    world.settle()

    assert world.state("broken") is JobState.SUCCEEDED


def test_a_kill_after_the_end_is_written_leaves_nothing_on_the_engine(world: World) -> None:
    run_two(world)
    write(world, "broken", spec="{}")
    world.step()
    assert {launch.job_id for launch in world.engine.launches()} == {"broken", "other"}

    world.restart()
    world.settle()

    assert {launch.job_id for launch in world.engine.launches()} == {"other"}


def test_those_who_ask_see_the_job_before_the_loop_does(world: World) -> None:
    run_two(world)
    write(world, "broken", spec="{}", labels="null")

    job = world.get("broken")
    rows = JobSearch(world.database, world.store.queue_positions, DIALECTS, ML_V1.filter_fields).search(
        PROJECT, SearchJobsRequest()
    )

    assert (job.state, job.labels) == (JobState.RUNNING, None)
    assert job.training_input is not None
    assert job.training_input.master_config is not None
    assert len(SearchJobsResponse.model_validate(rows).jobs) == 2
    assert world.jobs.patch(PROJECT, "broken", Job(labels={"team": "a"}), "labels").labels == {"team": "a"}
    world.jobs.cancel(PROJECT, "broken")
    assert world.state("broken") is JobState.CANCELLING


def test_a_state_that_this_version_does_not_know_stops_no_reader(world: World) -> None:
    run_two(world)
    write(world, "broken", state="PAUSED")
    end(world)

    assert world.state("broken") is JobState.FAILED
    assert world.store.count_by_state() == {JobState.FAILED: 1, JobState.SUCCEEDED: 1}
    rows = JobSearch(world.database, world.store.queue_positions, DIALECTS, ML_V1.filter_fields).search(
        PROJECT, SearchJobsRequest()
    )
    assert SearchJobsResponse.model_validate(rows).states == {JobState.FAILED: 1, JobState.SUCCEEDED: 1}


def trial_key(world: World, number: int) -> str:
    return f"{world.store.get(PROJECT, 'job').uid}/{number}"


@pytest.mark.parametrize("columns", [{"spec": "{}"}, {"trial": "{}", "spec": "{}"}, {"trial": "3"}])
def test_a_trial_that_cannot_be_read_fails_and_its_study_goes_on(
    world: World, columns: dict[str, str]
) -> None:
    tuning = Tuning(world)
    tuning.submit(max_trials=4)
    world.settle()
    write(world, trial_key(world, 1), **columns)

    tuning.run()

    assert world.state() is JobState.SUCCEEDED
    states = {trial.trial_id: trial.state for trial in tuning.trials()}
    assert states.pop("1") is JobState.FAILED
    assert states == dict.fromkeys(("2", "3", "4"), JobState.SUCCEEDED)


def test_a_study_that_cannot_be_read_fails_and_its_trials_end_with_it(world: World) -> None:
    tuning = Tuning(world)
    tuning.submit(max_trials=4)
    world.submit("other")
    world.settle()
    study = world.store.get(PROJECT, "job").uid

    write(world, "job", spec="{}")
    world.settle()

    assert world.state() is JobState.FAILED
    trials = world.trials.ended(study, ())
    assert [trial.state for trial in trials] == [JobState.CANCELLED] * 2
    assert [trial.reason and trial.reason.cause for trial in trials] == [Cause.STUDY_ENDED] * 2
    assert {launch.job_id for launch in world.engine.launches()} == {"other"}
