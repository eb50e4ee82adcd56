"""The loop with CustomJobs: what their containers get, and what is started again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from container_engines.memory.engine import Behaviour, MemoryEngine
from tests.support.fakes.custom_jobs import PACKAGE, make_custom_job, make_package_pool, make_pool
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.causes import Cause
from training_api.dialects.vertex_v1.reader import custom_job_spec
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.machines import GIB, Resources
from training_api.states import JobState
from training_service.api.vertex_v1.writer import custom_job
from training_service.loop.launcher import LAUNCHER_FOLDER
from training_service.model.records import JobRecord
from training_service.store.database import open_database

OTHER = "registry.test/p/another:1"
CHIEF = ReplicaId(role=ReplicaRole.MASTER)
WORKER = ReplicaId(role=ReplicaRole.WORKER)


@pytest.fixture
def world(world: World) -> World:
    world.add_image(Behaviour(run_seconds=1000))
    return world


def submit(world: World, *pools: dict[str, Any], **job_spec: Any) -> None:
    job = make_custom_job(*(pools or [make_pool(imageUri=IMAGE)]), **job_spec)
    world.store.insert(custom_job_spec(PROJECT, "us-central1", "123", job), job)
    world.settle()


def record(world: World) -> JobRecord:
    return world.store.get(PROJECT, "123")


def end(world: World, replica: ReplicaId, exit_code: int) -> None:
    world.engine.end(record(world).uid, replica, exit_code)
    world.settle()


def lose(world: World, replica: ReplicaId) -> None:
    world.engine.lose(record(world).uid, replica)
    world.settle()


def test_the_log_has_the_replicas_names_of_the_real_service(world: World) -> None:
    world.add_image(Behaviour(run_seconds=1, lines=("hello",)))
    submit(world, make_pool(imageUri=IMAGE), make_pool(2, imageUri=IMAGE))
    world.engine.advance(1)
    world.settle()

    entries, _ = world.logs.list_page(
        projects=[PROJECT],
        filter_text='resource.type="ml_job" AND resource.labels.job_id="123"',
        page_size=100,
    )

    assert {entry.task_name for entry in entries} == {
        "service",
        "workerpool0-0",
        "workerpool1-0",
        "workerpool1-1",
    }
    assert {entry.labels["ml.googleapis.com/task_name"] for entry in entries if entry.message == "hello"} == {
        "workerpool0-0",
        "workerpool1-0",
        "workerpool1-1",
    }


def test_the_services_own_lines_call_replicas_by_the_same_names() -> None:
    world = World(open_database("sqlite://"), engine=MemoryEngine(Resources(cpus=2, memory_bytes=4 * GIB)))
    world.max_replicas = 0
    world.restart()
    world.add_image(Behaviour(run_seconds=1000))
    world.add_image(Behaviour(run_seconds=1000), OTHER)
    submit(world, make_pool(imageUri=IMAGE), make_pool(3, imageUri=OTHER))
    lose(world, WORKER)

    text = "\n".join(world.messages("123"))
    assert "Image of workerpool0-0 is " in text
    assert "Image of workerpool1-0 and 2 more is " in text
    assert "this machine gives workerpool0-0 " in text
    assert "this machine gives each of workerpool1-0 to workerpool1-2 " in text
    assert "Starting again: workerpool1-0 restart 1 of 5." in text
    assert not [name for name in ("-replica-", "master", "worker 0") if name in text]


def test_an_image_that_is_not_there_is_that_of_the_replica_by_its_name(world: World) -> None:
    submit(world, make_pool(imageUri=OTHER))

    error = custom_job(record(world))["error"]
    assert error["code"] == 5
    assert error["message"].startswith(f"The image {OTHER} of the replica workerpool0-0 could not be pulled")


def test_a_job_runs_to_its_end(world: World) -> None:
    submit(world)

    assert custom_job(record(world))["state"] == "JOB_STATE_RUNNING"
    end(world, CHIEF, 0)
    done = custom_job(record(world))

    assert done["state"] == "JOB_STATE_SUCCEEDED"
    assert "error" not in done
    assert done["createTime"] <= done["startTime"] <= done["endTime"] == done["updateTime"]


def test_a_pool_of_packages_runs_its_executor_with_the_program_that_installs_them(world: World) -> None:
    pool = make_package_pool(executorImageUri=IMAGE, args=["--job=$(CLOUD_ML_JOB_ID)"])
    submit(world, pool, make_pool(imageUri=IMAGE))
    chief, worker = sorted(world.engine.launches(), key=lambda launch: launch.replica)

    assert chief.command == ("python3", "-u", f"{LAUNCHER_FOLDER}/run_package.py")
    assert chief.args == (f"--package={PACKAGE}", "--module=trainer.task", "--", "--job=123")
    assert f"{LAUNCHER_FOLDER}/run_package.py" in chief.files
    assert (worker.command, worker.files) == ((), {})


def test_a_package_that_cannot_be_installed_is_the_cause(world: World) -> None:
    submit(world, make_package_pool(executorImageUri=IMAGE))
    end(world, CHIEF, 65)

    done = record(world)
    assert (done.state, done.reason and done.reason.cause) == (JobState.FAILED, Cause.PACKAGE)
    assert custom_job(done)["error"]["code"] == 3


def test_objects_below_gcs_are_fetched_before_the_command(world: World) -> None:
    command = ["sh", "-c", "pip3 install -q --user /gcs/staging/x.tar.gz && python3 -m x.task"]
    submit(world, make_pool(imageUri=IMAGE, command=command))
    (launch,) = world.engine.launches()

    assert launch.command[3:] == ("--folder=/gcs", "--object=staging/x.tar.gz", "--", *command)
    assert launch.folders == ("/gcs",)


def test_containers_get_the_variables_and_the_arguments_of_the_dialect(world: World) -> None:
    env = [{"name": "OUT", "value": "$(AIP_MODEL_DIR)x"}]
    pool = make_pool(imageUri=IMAGE, env=env, command=["train", "$$(OUT)"], args=["--out=$(OUT)", "$(NOPE)"])
    submit(
        world, pool, make_pool(imageUri=IMAGE), baseOutputDirectory={"outputUriPrefix": "gs://bucket/base"}
    )
    chief, worker = sorted(world.engine.launches(), key=lambda launch: launch.replica)

    assert chief.environment["OUT"] == "gs://bucket/base/model/x"
    assert (chief.command, chief.args) == (("train", "$(OUT)"), ("--out=gs://bucket/base/model/x", "$(NOPE)"))
    assert json.loads(chief.environment["CLUSTER_SPEC"])["cluster"] == {
        "workerpool0": [f"{chief.host_name}:2222"],
        "workerpool1": [f"{worker.host_name}:2222"],
    }
    assert chief.environment["STORAGE_EMULATOR_HOST"] == "http://store.test"
    assert "OUT" not in worker.environment


@pytest.mark.parametrize("name", ["GOOGLE_CLOUD_PROJECT", "STORAGE_EMULATOR_HOST", "CLOUD_ML_JOB_ID"])
def test_variables_and_arguments_refer_to_the_same_names(world: World, name: str) -> None:
    env = [{"name": "COPY", "value": f"$({name})"}]
    submit(world, make_pool(imageUri=IMAGE, env=env, command=[f"$({name})"], args=["$(COPY)"]))

    (launch,) = world.engine.launches()

    assert launch.environment["COPY"] == launch.environment[name]
    assert (launch.command, launch.args) == ((launch.environment[name],), (launch.environment[name],))


def test_a_variable_of_the_request_hides_one_of_the_service(world: World) -> None:
    env = [{"name": "STORAGE_EMULATOR_HOST", "value": "$(STORAGE_EMULATOR_HOST)/own"}]
    submit(world, make_pool(imageUri=IMAGE, env=env, args=["$(STORAGE_EMULATOR_HOST)"]))

    (launch,) = world.engine.launches()

    assert launch.environment["STORAGE_EMULATOR_HOST"] == "http://store.test/own"
    assert launch.args == ("http://store.test/own",)


def test_a_status_of_the_program_fails_the_job_in_the_words_of_the_real_service(world: World) -> None:
    submit(world)
    end(world, CHIEF, 1)
    failed = custom_job(record(world))

    assert failed["state"] == "JOB_STATE_FAILED"
    assert failed["error"]["code"] == 3
    assert failed["error"]["message"].startswith(
        "The replica workerpool0-0 exited with a non-zero status of 1. Termination reason: Error.\n\n"
    )


@pytest.mark.parametrize("exit_code", [134, 139])
def test_a_transient_status_restarts_the_whole_job_three_times(world: World, exit_code: int) -> None:
    submit(world, make_pool(imageUri=IMAGE), make_pool(imageUri=IMAGE))

    for retry in (1, 2, 3):
        end(world, WORKER, exit_code)
        assert (record(world).state, record(world).attempts.retries) == (JobState.RUNNING, retry)
        assert not record(world).attempts.restarts
    end(world, WORKER, exit_code)

    assert record(world).state is JobState.FAILED


def test_a_status_that_is_transient_in_the_other_dialect_is_permanent(world: World) -> None:
    submit(world)
    end(world, CHIEF, 143)

    assert record(world).state is JobState.FAILED


@pytest.mark.parametrize(
    ("scheduling", "retries", "restarts"),
    [({}, 0, {"worker-replica-0": 1}), ({"restartJobOnWorkerRestart": True}, 1, {})],
)
def test_a_lost_worker_is_restarted_alone_or_with_its_job(
    world: World, scheduling: dict[str, Any], retries: int, restarts: dict[str, int]
) -> None:
    submit(world, make_pool(imageUri=IMAGE), make_pool(imageUri=IMAGE), scheduling=scheduling)
    lose(world, WORKER)

    attempts = record(world).attempts
    assert (record(world).state, attempts.retries, attempts.restarts) == (JobState.RUNNING, retries, restarts)


def test_without_retries_a_lost_worker_fails_the_job(world: World) -> None:
    submit(world, make_pool(imageUri=IMAGE), make_pool(imageUri=IMAGE), scheduling={"disableRetries": True})
    lose(world, WORKER)

    failed = custom_job(record(world))
    assert (failed["state"], failed["error"]["code"]) == ("JOB_STATE_FAILED", 13)
    assert "The replica workerpool1-0 was lost" in failed["error"]["message"]


def test_a_timeout_cancels_the_job(world: World) -> None:
    submit(world, scheduling={"timeout": "60s"})
    world.engine.advance(61)
    world.settle()
    ended = custom_job(record(world))

    assert (ended["state"], ended["error"]["code"]) == ("JOB_STATE_CANCELLED", 1)
    assert ended["error"]["message"].startswith("CANCELED: ")
    assert "scheduling.timeout" in ended["error"]["message"]


def test_a_flexible_start_waits_no_longer_than_it_may(world: World) -> None:
    world.disk_problem = "the disk is full"
    submit(world, scheduling={"strategy": "FLEX_START", "maxWaitDuration": "60s"})
    assert custom_job(record(world))["state"] == "JOB_STATE_QUEUED"
    world.engine.advance(61)
    world.settle()
    ended = custom_job(record(world))

    assert (ended["state"], ended["error"]["code"]) == ("JOB_STATE_CANCELLED", 1)
    assert "scheduling.maxWaitDuration" in ended["error"]["message"]
