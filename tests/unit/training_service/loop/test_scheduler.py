"""A job's whole life on the memory engine: states, failures, restarts of the service."""

from __future__ import annotations

import json

import pytest

from container_engines.base import EngineView
from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import PROJECT, World
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import EngineUnavailable, JobConflict
from training_api.job.machines import GIB
from training_api.states import JobState


def assert_nothing_is_left(world: World) -> None:
    assert world.engine.observe() == EngineView()


def test_job_passes_through_its_states_and_leaves_nothing_behind(world: World) -> None:
    world.add_image(Behaviour(run_seconds=5, lines=("epoch 1", "epoch 2")))

    states = [world.submit().state]
    for _ in range(4):
        world.step()
        states.append(world.state())
    world.engine.advance(5)
    world.settle()

    assert states == [
        JobState.QUEUED,
        JobState.PREPARING,  # admitted
        JobState.PREPARING,  # image pulled
        JobState.PREPARING,  # container started
        JobState.RUNNING,
    ]
    assert world.state() is JobState.SUCCEEDED
    assert [line for line in world.messages() if line.startswith("epoch")] == ["epoch 1", "epoch 2"]
    assert_nothing_is_left(world)


def test_times_follow_the_container_not_the_moment_of_looking(world: World) -> None:
    world.add_image(Behaviour(run_seconds=5))
    world.submit()
    world.step(4)

    world.engine.advance(3600)
    world.settle()

    job = world.get()
    assert job.start_time is not None
    assert job.end_time is not None
    assert (job.end_time - job.start_time).total_seconds() == 5


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (Behaviour(exit_code=3), "The replica master 0 exited with a non-zero status of 3."),
        (
            Behaviour(exit_code=137, out_of_memory=True),
            "The replica master 0 ran out-of-memory and exited with a non-zero status of 9(SIGKILL).",
        ),
        (
            Behaviour(exit_code=1, out_of_memory=True),
            "The replica master 0 ran out-of-memory and exited with a non-zero status of 1.",
        ),
    ],
)
def test_failed_container_fails_the_job_with_the_documented_message(
    world: World, behaviour: Behaviour, message: str
) -> None:
    world.add_image(behaviour)
    world.submit()
    world.settle()

    world.engine.advance(1)
    world.settle()

    assert world.state() is JobState.FAILED
    assert world.get().error_message == message
    assert_nothing_is_left(world)


def test_unknown_image_fails_the_job_and_names_it(world: World) -> None:
    world.submit(image="registry.test/project/absent:1")

    world.settle()

    job = world.get()
    assert job.state is JobState.FAILED
    assert "registry.test/project/absent:1" in (job.error_message or "")
    assert job.start_time is None
    assert job.end_time is not None


def test_entry_point_that_does_not_exist_fails_the_job(world: World) -> None:
    world.add_image(Behaviour(start_error='exec: "trainer": executable file not found in $PATH'))
    world.submit()

    world.settle()

    assert world.state() is JobState.FAILED
    assert "executable file not found" in (world.get().error_message or "")
    assert_nothing_is_left(world)


def test_silent_registry_is_asked_again_until_its_limit(world: World) -> None:
    world.add_image()
    world.engine.registry_available = False
    world.submit()
    world.step(3)
    assert world.state() is JobState.PREPARING

    for _ in range(4):
        world.engine.advance(20)
        world.settle()

    assert world.state() is JobState.FAILED
    assert "could not be pulled for 60 seconds" in (world.get().error_message or "")
    assert len([line for line in world.messages() if "asking again" in line]) == 1


def test_registry_that_comes_back_in_time_does_not_fail_the_job(world: World) -> None:
    world.add_image()
    world.engine.registry_available = False
    world.submit()
    world.step(3)

    world.engine.registry_available = True
    world.settle()

    assert world.state() is JobState.RUNNING


def test_image_removed_after_the_pull_is_pulled_again(world: World) -> None:
    ref = world.add_image()
    world.submit()
    world.step(2)
    world.engine.forget_image(ref)
    world.step()
    assert world.store.get(PROJECT, "job").images == {}

    world.add_image()
    world.settle()

    assert world.state() is JobState.RUNNING


def test_container_gets_the_cluster_variables_the_settings_and_the_job_directory(world: World) -> None:
    world.add_image(Behaviour(run_seconds=60))
    world.submit(args=["--epochs", "3"], job_dir="gs://bucket/jobs/1")

    world.settle()

    (launch,) = world.engine.launches()
    spec = json.loads(launch.environment["CLUSTER_SPEC"])
    assert launch.args == ("--epochs", "3", "--job-dir", "gs://bucket/jobs/1")
    assert spec["task"] == {"type": "master", "index": 0, "trial": ""}
    assert spec["cluster"]["master"] == [f"{launch.host_name}:2222"]
    assert json.loads(launch.environment["TF_CONFIG"])["environment"] == "cloud"
    assert launch.environment["STORAGE_EMULATOR_HOST"] == "http://store.test"
    assert launch.environment["GOOGLE_CLOUD_PROJECT"] == PROJECT


def test_machine_is_scaled_down_to_the_host_and_the_log_says_so(world: World) -> None:
    world.add_image(Behaviour(run_seconds=60))
    world.submit()

    world.settle()

    (launch,) = world.engine.launches()
    assert launch.resources.cpus == 2
    assert launch.resources.memory_bytes == 7 * GIB
    assert any("n1-standard-4 has 4 cores and 15.0 GiB" in line for line in world.messages())


def test_job_id_is_never_used_twice(world: World) -> None:
    world.add_image()
    world.submit()

    with pytest.raises(JobConflict, match="'job' already exists"):
        world.submit()

    assert [job.job_id for job in world.jobs.list_page(PROJECT).jobs or []] == ["job"]


@pytest.mark.parametrize("steps", range(7))
def test_service_killed_at_any_step_finishes_the_job(world: World, steps: int) -> None:
    world.add_image(Behaviour(run_seconds=5, lines=("a", "b")))
    world.submit()
    for _ in range(steps):
        world.step()
        world.engine.advance(1)

    world.restart()
    world.engine.advance(10)
    world.settle()
    world.engine.advance(10)
    world.settle()

    assert world.state() is JobState.SUCCEEDED
    assert [line for line in world.messages() if line in ("a", "b")] == ["a", "b"]
    assert_nothing_is_left(world)


def test_container_of_a_job_that_is_newer_than_the_list_is_not_taken_for_a_stray(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add_image(Behaviour(run_seconds=60))
    world.submit()
    world.settle()
    lists = [[], world.store.list_active()]  # read before, and after, the job was stored
    monkeypatch.setattr(world.store, "list_active", lambda: lists.pop(0))

    world.step()

    assert len(world.engine.launches()) == 1


def test_engine_that_is_away_loses_no_job(world: World) -> None:
    world.add_image(Behaviour(run_seconds=5))
    world.submit()
    world.settle()
    world.engine.available = False
    with pytest.raises(EngineUnavailable):
        world.step()

    world.engine.available = True
    world.engine.advance(5)
    world.settle()

    assert world.state() is JobState.SUCCEEDED


def test_each_state_change_is_one_line_in_the_job_log_with_its_time(world: World) -> None:
    world.add_image()
    world.submit()
    world.settle()
    world.engine.advance(1)
    world.settle()

    entries, _ = world.logs.list_page(
        projects=[PROJECT], filter_text='resource.labels.task_name="service"', page_size=100
    )

    states = [e.json_payload["state"] for e in entries if e.json_payload and "state" in e.json_payload]
    assert sorted(states) == ["PREPARING", "QUEUED", "RUNNING", "SUCCEEDED"]


def test_metrics_count_transitions_and_jobs(world: World) -> None:
    world.metrics.watch_jobs(world.store.count_by_state)
    world.add_image()
    world.submit()
    world.settle()

    value = world.metrics.registry.get_sample_value

    assert value("training_jobs", {"state": "RUNNING"}) == 1
    assert value("training_jobs", {"state": "FAILED"}) == 0
    assert value("training_job_transitions_total", {"kind": "job", "state": "PREPARING"}) == 1


def test_output_only_fields_of_a_request_are_ignored(world: World) -> None:
    world.add_image()
    sent = Job.model_validate(
        {
            "jobId": "job",
            "state": "SUCCEEDED",
            "errorMessage": "x",
            "trainingInput": {"masterConfig": {"imageUri": "registry.test/project/trainer:1"}},
        }
    )

    answered = world.jobs.create(PROJECT, sent)

    assert answered.state is JobState.QUEUED
    assert answered.error_message is None


def test_one_iteration_writes_a_part_of_many_decisions_and_the_next_the_others(world: World) -> None:
    world.add_image()
    for place in range(150):
        world.submit(f"job_{place}")
        world.jobs.cancel(PROJECT, f"job_{place}")

    world.step()
    after_one = world.store.count_by_state()
    world.step()

    assert after_one == {JobState.CANCELLED: 100, JobState.CANCELLING: 50}
    assert world.store.count_by_state() == {JobState.CANCELLED: 150}
