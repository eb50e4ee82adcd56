"""
Jobs of several replicas on a real engine.

They find each other, are restarted, and end as the master does.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import docker
import docker.errors
import pytest

from local_stack.stack import LocalStack
from tests.support.bed.job_watch import messages, until_state
from tests.support.bed.real_parts import kill_service
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.errors import TrainingError
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = pytest.mark.docker

#: Every replica listens on its port; the master asks each for its role, and ends when all have answered, and
#: the evaluator, of which no replica knows, has called at another port.
MEET = """
import json, os, socket, socketserver, sys, threading, time
spec = json.loads(os.environ["CLUSTER_SPEC"])
me = f"{spec['task']['type']}-{spec['task']['index']}"

class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(me.encode())

if spec["task"]["type"] != "evaluator":
    server = socketserver.ThreadingTCPServer(("", 2222), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
calls = socket.create_server(("", 2223))
print("up", me, flush=True)
while spec["task"]["type"] == "evaluator":
    try:
        socket.create_connection((spec["cluster"]["master"][0].split(":")[0], 2223), timeout=5).close()
        break
    except OSError:
        time.sleep(0.1)
if spec["task"]["type"] != "master":
    time.sleep(600)
met = []
for role, hosts in spec["cluster"].items():
    for host in hosts:
        name, port = host.split(":")
        for _ in range(1200):
            try:
                with socket.create_connection((name, int(port)), timeout=5) as peer:
                    met.append(peer.makefile().read())
                break
            except OSError:
                time.sleep(0.1)
calls.accept()
print("met", json.dumps(sorted(met)), flush=True)
"""
SLEEP = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def submit(training: TrainingClient, pushed_image: ImageRef, job_id: str) -> Callable[..., str]:
    """Submit a master, two workers, a parameter server and an evaluator, each with a program."""

    def submit(master: str, other: str, suffix: str = "", **training_input: Any) -> str:
        def runs(program: str) -> ReplicaConfig:
            return ReplicaConfig(
                image_uri=str(pushed_image), container_command=["python3", "-u", "-c", program]
            )

        cluster: dict[str, Any] = {
            "scale_tier": "CUSTOM",
            "master_type": "n1-standard-4",
            "master_config": runs(master),
            "worker_type": "n1-standard-4",
            "worker_count": 2,
            "worker_config": runs(other),
            "parameter_server_type": "n1-standard-4",
            "parameter_server_count": 1,
            "parameter_server_config": runs(other),
            "evaluator_type": "n1-standard-4",
            "evaluator_count": 1,
            "evaluator_config": runs(other),
        }
        training.create_job(
            Job(
                job_id=job_id + suffix,
                training_input=TrainingInput(region="us-central1", **cluster | training_input),
            )
        )
        return job_id + suffix

    return submit


@pytest.fixture(autouse=True)
def nothing_is_left(engine_client: docker.APIClient, job_id: str) -> Iterator[None]:
    """After each test the job's containers and networks are gone."""
    yield
    label = {"label": f"container-training.job={job_id}"}
    wait_until(
        lambda: (
            not engine_client.containers(all=True, filters=label)
            and not engine_client.networks(filters=label)
        ),
        "the job's containers and networks are gone",
        seconds=120,
    )


def container(engine: docker.APIClient, job_id: str, role: str) -> dict[str, Any]:
    """Return the running container of the first replica of ``role``."""
    label = [
        f"container-training.job={job_id}",
        f"container-training.role={role}",
        "container-training.index=0",
    ]
    (found,) = engine.containers(filters={"label": label})
    return dict(found)


@pytest.mark.proves("replicas find each other by name", on="one machine")
def test_replicas_find_each_other_by_name(training: TrainingClient, submit: Callable[..., str]) -> None:
    job_id = submit(MEET, MEET)

    until_state(training, job_id, JobState.SUCCEEDED)

    (met,) = [line for line in messages(training, job_id) if line.startswith("master-replica-0: met")]
    assert json.loads(met.partition("met ")[2]) == ["master-0", "ps-0", "worker-0", "worker-1"]
    assert "evaluator-replica-0: up evaluator-0" in messages(training, job_id)


@pytest.mark.proves("lost replicas are started again", on="one machine")
def test_a_killed_worker_comes_back_under_its_name(
    training: TrainingClient, submit: Callable[..., str], engine_client: docker.APIClient
) -> None:
    job_id = submit(SLEEP, SLEEP)
    until_state(training, job_id, JobState.RUNNING)
    before = container(engine_client, job_id, "worker")
    host = engine_client.inspect_container(before["Id"])["Config"]["Hostname"]

    engine_client.kill(before["Id"])
    wait_until(
        lambda: any("worker-replica-0 restart 1 of 5" in line for line in messages(training, job_id)),
        "the worker's restart is in the log",
    )
    label = {"label": [f"container-training.job={job_id}", "container-training.attempt=0.1"]}
    wait_until(lambda: engine_client.containers(filters=label), "the worker runs again")

    after = container(engine_client, job_id, "worker")
    assert engine_client.inspect_container(after["Id"])["Config"]["Hostname"] == host
    assert training.get_job(job_id).state is JobState.RUNNING
    training.cancel_job(job_id)
    until_state(training, job_id, JobState.CANCELLED)


def test_a_worker_that_fails_for_good_takes_the_job_with_it(
    training: TrainingClient, submit: Callable[..., str]
) -> None:
    job_id = submit(SLEEP, "raise SystemExit(3)")

    job = until_state(training, job_id, JobState.FAILED)

    assert "exited with a non-zero status of 3." in (job.error_message or "")
    assert "master" not in (job.error_message or "")


def test_a_running_job_is_cancelled_by_its_limit_for_real(
    training: TrainingClient, submit: Callable[..., str]
) -> None:
    job_id = submit(SLEEP, SLEEP, scheduling={"max_running_time": "2s"})

    job = until_state(training, job_id, JobState.CANCELLED)

    assert (
        job.error_message
        == "The job was cancelled because it ran longer than scheduling.maxRunningTime (2s)."
    )
    assert job.start_time
    assert job.end_time
    assert 2 <= (job.end_time - job.start_time).total_seconds() < scaled(20)


def outcome(training: TrainingClient, job_id: str) -> tuple[JobState | None, str]:
    """Return the job's state, and its message, from a service that may be away."""
    try:
        job = training.get_job(job_id)
    except TrainingError:
        return None, ""
    return job.state, job.error_message or ""


def test_service_killed_six_times_ends_every_job_as_it_would_have(
    training: TrainingClient, submit: Callable[..., str], stack: LocalStack, engine_client: docker.APIClient
) -> None:
    chance = random.Random(20)
    short = "import time; time.sleep(3)"
    ids = {
        submit(short, SLEEP, "_succeeds"): JobState.SUCCEEDED,
        submit("import time; time.sleep(2); raise SystemExit(7)", SLEEP, "_fails"): JobState.FAILED,
        submit(SLEEP, "raise SystemExit(5)", "_loses_a_worker"): JobState.FAILED,
        submit(SLEEP, SLEEP, "_is_cancelled"): JobState.CANCELLED,
    }
    (cancelled,) = [job_id for job_id, end in ids.items() if end is JobState.CANCELLED]

    def is_up() -> bool:
        return outcome(training, cancelled)[0] is not None

    for kill in range(6):
        if kill == 3:
            wait_until(is_up, "the service is up again")
            training.cancel_job(cancelled)
        kill_service(stack)
        wait_until(is_up, "the service is up again")
        # A moment by chance, so that the kills find it at different work.
        time.sleep(chance.uniform(0, 0.5))

    wait_until(
        lambda: all((state := outcome(training, job_id)[0]) and state.is_terminal for job_id in ids),
        "all jobs have ended",
        seconds=120,
    )

    assert {job_id: outcome(training, job_id)[0] for job_id in ids} == ids
    messages = {job_id.rpartition("_")[2]: outcome(training, job_id)[1] for job_id in ids}
    assert messages["fails"] == "The replica master 0 exited with a non-zero status of 7."
    assert "exited with a non-zero status of 5." in messages["worker"]
    for job_id in ids:
        label = {"label": f"container-training.job={job_id}"}
        wait_until(
            lambda label=label: not engine_client.containers(all=True, filters=label),  # type: ignore[misc]
            f"the containers of {job_id} are gone",
        )
        wait_until(
            lambda label=label: not engine_client.networks(filters=label),  # type: ignore[misc]
            f"the networks of {job_id} are gone",
        )
