"""Jobs on a real engine, pulled from a real registry, by a service in a separate process."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import docker
import pytest

from benchmarks.on_stack.log_flood import PROGRAM
from local_stack.people.credentials import registry_login
from local_stack.stack import LocalStack
from tests.support import web
from tests.support.bed.job_watch import messages_that
from tests.support.bed.real_parts import kill_service
from tests.support.full_memory import FULL_MEMORY
from tests.support.selection import cases
from tests.support.waiting import wait_until
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.cloud_logging import LogEntry, Severity
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.errors import TrainingError
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = pytest.mark.docker

#: Writes at the pace of its arguments (seconds, bytes a second, bytes a line), says how it went, and fails.
FLOOD = PROGRAM + "print('it failed', flush=True)\nraise SystemExit(3)\n"


@pytest.fixture
def submit(training: TrainingClient, pushed_image: ImageRef, job_id: str) -> Callable[..., str]:
    """Submit a job that runs ``program`` with Python; returns its id."""

    def submit(program: str, *args: str, image: str = str(pushed_image), **training_input: Any) -> str:
        config = ReplicaConfig(
            image_uri=image,
            container_command=["python3", "-u", "-c", program],
            container_args=list(args) or None,
        )
        training.create_job(
            Job(
                job_id=job_id,
                training_input=TrainingInput(region="us-central1", master_config=config, **training_input),
            )
        )
        return job_id

    return submit


@pytest.fixture(autouse=True)
def nothing_is_left(engine_client: docker.APIClient, job_id: str) -> Iterator[None]:
    """After each test its job has ended, and its containers and networks are gone."""
    yield
    label = {"label": f"container-training.job={job_id}"}

    def is_gone() -> bool:
        return not engine_client.containers(all=True, filters=label) and not engine_client.networks(
            filters=label
        )

    wait_until(is_gone, "the job's containers and networks are gone", seconds=120)


def wait_for(training: TrainingClient, job_id: str, *states: JobState) -> Job:
    """
    Return the job once it is in one of ``states``, or has ended otherwise.

    A service that does not answer is asked again.
    """

    def reached() -> Job:
        job = training.get_job(job_id)
        assert job.state in states or (job.state and job.state.is_terminal), f"{job_id} is {job.state}"
        return job

    what = f"{job_id} is {' or '.join(states)}"
    return wait_until(reached, what, seconds=120, ignoring=(TrainingError, AssertionError))


def read_log(training: TrainingClient, job_id: str) -> list[LogEntry]:
    entries: list[LogEntry] = []
    token = ""
    while True:
        page = training.list_log_entries(job_log_filter(job_id), page_token=token)
        entries += page.entries or []
        token = page.next_page_token or ""
        if not token:
            return entries


def test_job_succeeds_with_its_output_kept_by_stream(
    training: TrainingClient, submit: Callable[..., str]
) -> None:
    job_id = submit(
        "import sys; print('hello'); print('oops', file=sys.stderr); print(sys.argv[1:])", "--lr=0.1"
    )

    job = wait_for(training, job_id, JobState.SUCCEEDED)

    lines = {entry.message: entry for entry in read_log(training, job_id)}
    assert job.state is JobState.SUCCEEDED
    assert lines["hello"].severity is Severity.INFO
    assert lines["oops"].severity is Severity.ERROR
    assert lines["['--lr=0.1']"].task_name == "master-replica-0"
    assert job.create_time is not None
    assert job.start_time is not None
    assert job.end_time is not None
    # One look of a busy service may find a container that has started and ended.
    assert job.create_time < job.start_time <= job.end_time


def test_trainer_knows_its_cluster_and_reaches_the_object_store(
    training: TrainingClient, submit: Callable[..., str], stack: LocalStack
) -> None:
    web.post(
        f"{stack.settings.object_store_url}/upload/storage/v1/b/{stack.settings.bucket}/o",
        params={"uploadType": "media", "name": "greeting.txt"},
        content=b"hi",
        headers={"content-type": "text/plain"},
    ).raise_for_status()
    program = f"""
import json, os, socket, urllib.request
spec = json.loads(os.environ["CLUSTER_SPEC"])
host, port = spec["cluster"]["master"][0].split(":")
assert host == socket.gethostname() and socket.gethostbyname(host), spec
url = os.environ["STORAGE_EMULATOR_HOST"] + "/storage/v1/b/{stack.settings.bucket}/o/greeting.txt?alt=media"
print("read", urllib.request.urlopen(url).read().decode())
"""

    job = wait_for(training, submit(program), JobState.SUCCEEDED)

    assert job.state is JobState.SUCCEEDED, [entry.message for entry in read_log(training, job.job_id or "")]
    assert "read hi" in [entry.message for entry in read_log(training, job.job_id or "")]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("raise SystemExit(3)", "The replica master 0 exited with a non-zero status of 3."),
        (
            FULL_MEMORY,
            "The replica master 0 ran out-of-memory and exited with a non-zero status of 9(SIGKILL).",
        ),
    ],
)
def test_failed_trainer_fails_the_job_with_the_documented_message(
    training: TrainingClient, submit: Callable[..., str], program: str, message: str
) -> None:
    job = wait_for(training, submit(program), JobState.FAILED)

    assert job.state is JobState.FAILED
    assert job.error_message == message


def test_unknown_image_is_named(
    training: TrainingClient, submit: Callable[..., str], pushed_image: ImageRef
) -> None:
    absent = f"{pushed_image.host}/demo-project/absent:1"

    job = wait_for(training, submit("", image=absent), JobState.FAILED)

    assert job.state is JobState.FAILED
    assert absent in (job.error_message or "")
    assert "manifest unknown" in (job.error_message or "")


@pytest.mark.proves("cancel", on="one machine")
def test_cancel_stops_a_stubborn_trainer_after_the_grace_period(
    training: TrainingClient, submit: Callable[..., str]
) -> None:
    job_id = submit(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up'); time.sleep(600)"
    )
    wait_for(training, job_id, JobState.RUNNING)
    wait_until(lambda: "up" in [entry.message for entry in read_log(training, job_id)], "the trainer is up")

    training.cancel_job(job_id)

    job = wait_for(training, job_id, JobState.CANCELLED)
    assert job.state is JobState.CANCELLED
    assert job.error_message == "The job was cancelled on request."


@pytest.mark.proves("logs, whole and in order", on="one machine")
@pytest.mark.proves("log search by filter", on="one machine")
def test_long_output_is_kept_whole_and_in_order(training: TrainingClient, submit: Callable[..., str]) -> None:
    job_id = submit("for i in range(20000): print(i)\nprint('x' * 50000)")

    wait_for(training, job_id, JobState.SUCCEEDED)

    lines = [e.message for e in read_log(training, job_id) if e.task_name == "master-replica-0"]
    assert lines[:-1] == [str(place) for place in range(20000)]
    assert lines[-1] == "x" * 50000
    assert messages_that(training, job_id, 'textPayload:"1999"') == [
        "1999",
        "11999",
        *(f"1999{n}" for n in range(10)),
    ]


def test_a_flood_keeps_its_beginning_and_its_end_and_says_what_was_dropped(
    training: TrainingClient, submit: Callable[..., str]
) -> None:
    job_id = submit(FLOOD, "5", "10000000", "200")

    job = wait_for(training, job_id, JobState.FAILED)

    assert job.error_message == "The replica master 0 exited with a non-zero status of 3."
    entries = [e for e in read_log(training, job_id) if e.task_name == "master-replica-0"]
    lines = [entry.message for entry in entries]
    *_, said, last = lines
    written = int(said.split()[2])
    kept = [int(line[:10]) for line in lines if line[:10].isdecimal()]
    losses = [entry for entry in entries if entry.message.startswith("At least ")]
    dropped = sum(int(entry.message.split()[2]) for entry in losses)
    assert last == "it failed"
    assert {entry.severity for entry in losses} == {Severity.WARNING}
    assert kept == sorted(set(kept))
    assert kept[0] == 0
    assert kept[-400:] == list(range(written - 400, written))
    assert written == 250_000
    assert len(kept) + dropped == written


def test_service_that_is_killed_adopts_its_running_job(
    training: TrainingClient, submit: Callable[..., str], stack: LocalStack
) -> None:
    job_id = submit("import time\nfor i in range(30):\n    print('tick', i); time.sleep(0.1)")
    running = wait_for(training, job_id, JobState.RUNNING)

    kill_service(stack)

    job = wait_for(training, job_id, JobState.SUCCEEDED)
    ticks = [entry.message for entry in read_log(training, job_id) if entry.message.startswith("tick")]
    assert job.state is JobState.SUCCEEDED
    assert job.start_time == running.start_time
    assert ticks == [f"tick {place}" for place in range(30)]


@pytest.mark.parametrize("delay_seconds", cases([0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6], witnesses=[0.1, 0.8]))
def test_service_killed_at_any_moment_ends_the_job_once(
    training: TrainingClient, submit: Callable[..., str], stack: LocalStack, delay_seconds: float
) -> None:
    job_id = submit("import time\nfor i in range(10):\n    print('tick', i); time.sleep(0.1)")
    killer = threading.Timer(delay_seconds, kill_service, [stack])

    killer.start()
    killer.join()
    job = wait_for(training, job_id, JobState.SUCCEEDED)

    ticks = [entry.message for entry in read_log(training, job_id) if entry.message.startswith("tick")]
    states = [
        json.dumps(entry.json_payload["state"])
        for entry in read_log(training, job_id)
        if entry.json_payload and "state" in entry.json_payload
    ]
    assert job.state is JobState.SUCCEEDED
    assert ticks == [f"tick {place}" for place in range(10)]
    assert len(states) == len(set(states)) == 4


def test_volumes_of_an_image_go_with_the_job(
    training: TrainingClient,
    submit: Callable[..., str],
    pushed_image: ImageRef,
    engine_client: docker.APIClient,
    stack: LocalStack,
) -> None:
    repository = f"{pushed_image.host}/demo-project/with-volume"
    dockerfile = io.BytesIO(f"FROM {pushed_image}\nVOLUME /scratch\n".encode())
    assert list(engine_client.build(fileobj=dockerfile, tag=f"{repository}:test", rm=True))
    login = registry_login(stack.settings)
    pushed = engine_client.push(repository, "test", stream=True, decode=True, auth_config=login)
    assert not [line for line in pushed if "error" in line]

    program = "import time; open('/scratch/x', 'w'); time.sleep(600)"
    job_id = submit(program, image=f"{repository}:test")
    wait_for(training, job_id, JobState.RUNNING)
    (container,) = engine_client.containers(filters={"label": f"container-training.job={job_id}"})
    (volume,) = [mount["Name"] for mount in container["Mounts"] if mount["Destination"] == "/scratch"]
    training.cancel_job(job_id)
    wait_for(training, job_id, JobState.CANCELLED)

    def volume_is_gone() -> bool:
        return volume not in {each["Name"] for each in engine_client.volumes()["Volumes"] or []}

    wait_until(volume_is_gone, "the job's volume is gone")
    engine_client.remove_image(f"{repository}:test", force=True)


def test_container_that_somebody_removes_is_started_again(
    training: TrainingClient, submit: Callable[..., str], engine_client: docker.APIClient
) -> None:
    job_id = submit("import time; time.sleep(600)")
    label = f"container-training.job={job_id}"
    wait_for(training, job_id, JobState.RUNNING)
    (container,) = engine_client.containers(filters={"label": label})

    engine_client.remove_container(container["Id"], force=True)
    wait_until(lambda: engine_client.containers(filters={"label": label}), "the replica runs again")

    (again,) = engine_client.containers(filters={"label": label})
    assert again["Id"] != container["Id"]
    assert "The replica master 0 was lost" in "".join(
        entry.message for entry in read_log(training, job_id) if entry.severity is Severity.WARNING
    )
    training.cancel_job(job_id)
    assert wait_for(training, job_id, JobState.CANCELLED).state is JobState.CANCELLED
