"""
Metrics and identities on several machines, by the agent of each.

Trials run on all machines with the unmodified package ``cloudml-hypertune``; every report arrives once, also
if an agent, or the service, is killed meanwhile. Replicas get the tokens of their job's account.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import docker
import pytest

from container_engines.docker.client import post
from container_engines.swarm.agent import AGENT_OF, AgentLaunch, agent_secret_name, agent_service_spec
from container_engines.swarm.engine import SwarmEngine
from container_engines.swarm.images import pull_headers
from local_stack.stack import LocalStack
from tests.support import web
from tests.support.bed import played_nvml
from tests.support.bed.job_watch import messages, until_state
from tests.support.bed.swarm import Swarm
from tests.support.bed.swarm_service import Service, service_with_agents
from tests.support.bed.tuning_jobs import (
    REPORTS,
    TAG,
    check_that_a_job_has_its_curve,
    check_that_a_study_is_resumed,
    check_that_trials_are_stopped_early,
    put_summary_file,
    run_trial,
)
from tests.support.full_memory import FULL_MEMORY
from tests.support.waiting import wait_until
from training_api.causes import Cause
from training_api.clients.fleet import OpsClient
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import (
    Goal,
    HyperparameterSpec,
    Job,
    ParameterSpec,
    ParameterType,
    ReplicaConfig,
    TrainingInput,
)
from training_api.job.image_ref import ImageRef
from training_api.states import JobState
from training_service.access.identity import Authenticator, IdentityTokens
from training_service.access.signing_key import SigningKey

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

PROJECT = "demo-project"
#: Uses a part of a core, and 64 MiB.
BUSY = """
import time
held = bytearray(64 << 20)
while True:
    until = time.monotonic() + 0.2
    while time.monotonic() < until:
        pass
    time.sleep(0.2)
"""
#: Runs out of memory when it gets the signal.
FULL = f"""
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("ready", flush=True)
signal.sigwait([signal.SIGUSR1])
{FULL_MEMORY}
"""
#: Says who it is by its metadata, then whether tokens can be had: new ones, and one that was had before.
WHO = """
import json, os, time, urllib.error, urllib.request

def get(path):
    url = f"http://{os.environ['GCE_METADATA_HOST']}/computeMetadata/v1/{path}"
    request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()

def can_get(path):
    try:
        return bool(get(path))
    except OSError:
        return False

account = "instance/service-accounts/default"
while not can_get(f"{account}/email"):
    time.sleep(0.1)
token = json.loads(get(f"{account}/token"))["access_token"]
print("WHO", json.dumps([get("project/project-id"), get(f"{account}/email"), token]), flush=True)
was_up = True
while True:
    is_up = can_get(f"{account}/identity?audience=test")
    if is_up != was_up:
        print("UP" if is_up else "DOWN, KEPT" if can_get(f"{account}/token") else "DOWN", flush=True)
    was_up = is_up
    time.sleep(0.1)
"""
#: Asks for a token, and prints how that ended.
STRANGER = """
import sys, urllib.error, urllib.request
url = f"http://{sys.argv[1]}/computeMetadata/v1/instance/service-accounts/default/token"
try:
    urllib.request.urlopen(urllib.request.Request(url, headers={"Metadata-Flavor": "Google"}), timeout=60)
    print("let in")
except urllib.error.HTTPError as error:
    print(error.code)
except OSError as error:
    print(getattr(getattr(error, "reason", error), "strerror", error))
"""
ACCOUNT = "trainer@demo-project.iam.gserviceaccount.com"
_STEPS = """
SELECT trial.uid, measurements.step FROM measurements JOIN jobs trial ON trial.uid = measurements.job_uid
JOIN jobs study ON study.uid = trial.study_uid WHERE study.job_id = ? ORDER BY trial.uid, measurements.sequence
"""


@pytest.fixture(scope="module")
def service(
    swarm: Swarm, agent_image: ImageRef, stack: LocalStack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service whose agents run on all machines; it reads the stack's object store."""
    folder = tmp_path_factory.mktemp("agent-service")
    variables = {
        "TRAINING_STORAGE_ENDPOINT": stack.settings.object_store_url,
        # As the swarm names a container's GPUs to it; no machine here has one.
        "TRAINING_CONTAINER_ENV": json.dumps({"DOCKER_RESOURCE_NVIDIA-GPU": "GPU-45cbf7b3"}),
    }
    with service_with_agents(swarm, agent_image, folder, variables) as service:
        yield service


@pytest.fixture
def training(service: Service) -> Iterator[TrainingClient]:
    with TrainingClient(service.url, PROJECT) as client:
        yield client


@pytest.fixture
def tune(training: TrainingClient, agent_image: ImageRef, job_id: str) -> Callable[..., None]:
    """Submit a tuning job whose trials run ``program``."""

    def tune(program: str, *args: str, **search: object) -> None:
        rate = ParameterSpec(parameter_name="lr", type=ParameterType.DOUBLE, min_value=0.1, max_value=1.0)
        values = {"max_trials": 3, "max_parallel_trials": 3, **search}
        training_input = TrainingInput(
            master_config=ReplicaConfig(
                image_uri=str(agent_image),
                # An image's trainer gets the values of the search as its last arguments.
                container_command=["python3", "-c", program, *args],
            ),
            hyperparameters=HyperparameterSpec(
                goal=Goal.MAXIMIZE, hyperparameter_metric_tag=TAG, params=[rate], **values
            ),
        )
        training.create_job(Job(job_id=job_id, training_input=training_input))

    return tune


def steps_of_trials(service: Service, job_id: str) -> list[list[int]]:
    """
    Return the steps of all reports of each trial, in the order of their places.

    The API shows a part.
    """
    uri = f"file:{service.database}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as database:
        rows = database.execute(_STEPS, (job_id,)).fetchall()
    return [[step for _, step in group] for _, group in groupby(rows, key=lambda row: row[0])]


def machines_of(engines: dict[str, docker.APIClient], job_id: str) -> set[str]:
    """Return the machines on which containers of the job run."""
    label = {"label": f"container-training.job={job_id}"}
    return {name for name, engine in engines.items() if engine.containers(filters=label)}


def agents_of(engines: dict[str, docker.APIClient]) -> dict[str, str]:
    """Return the id of the running agent's container on each machine."""
    label = {"label": "container-training.agent-of"}
    return {
        name: found[0]["Id"]
        for name, engine in engines.items()
        if (found := engine.containers(filters=label))
    }


def wait_for_reports(service: Service, job_id: str, count: int) -> None:
    """Return when each of the job's three trials has ``count`` reports in the store."""

    def have_reported() -> bool:
        with OpsClient(service.url, PROJECT) as ops:
            curves = ops.curves(job_id).curves
        return len(curves) == 3 and all(len(curve.steps) >= count for curve in curves)

    wait_until(have_reported, f"each trial has {count} reports", seconds=120)


@pytest.mark.extended
@pytest.mark.proves("tuning: cloudml-hypertune", on="swarm with agents")
def test_every_report_of_trials_on_all_machines_arrives(
    service: Service,
    training: TrainingClient,
    tune: Callable[..., None],
    engines: dict[str, docker.APIClient],
    job_id: str,
) -> None:
    tune(REPORTS, "1000", "0.005", max_trials=10, max_parallel_trials=10)
    wait_until(
        lambda: machines_of(engines, job_id) == set(engines), "a trial runs on each machine", seconds=120
    )
    until_state(training, job_id, JobState.SUCCEEDED)

    assert steps_of_trials(service, job_id) == [list(range(1, 1001))] * 10


@pytest.mark.extended
@pytest.mark.proves("tuning: early stopping", on="swarm with agents")
def test_trials_are_stopped_early_on_every_machine(
    training: TrainingClient, agent_image: ImageRef, job_id: str
) -> None:
    check_that_trials_are_stopped_early(training, str(agent_image), job_id)


@pytest.mark.extended
@pytest.mark.proves("tuning: resume of an earlier study", on="swarm with agents")
def test_a_study_resumes_an_earlier_one(training: TrainingClient, agent_image: ImageRef, job_id: str) -> None:
    check_that_a_study_is_resumed(training, str(agent_image), job_id)


@pytest.mark.extended
@pytest.mark.proves("tuning: TensorFlow's summary files", on="swarm with agents")
def test_summary_files_in_the_job_directory_are_read(
    training: TrainingClient, stack: LocalStack, agent_image: ImageRef, job_id: str
) -> None:
    job_dir = put_summary_file(stack.settings.object_store_url, job_id)

    steps = run_trial(training, job_id, str(agent_image), "print('done')", JobState.SUCCEEDED, job_dir)

    assert steps == [1, 2, 3, 4, 5]


def test_agents_that_are_killed_lose_no_report(
    service: Service,
    training: TrainingClient,
    tune: Callable[..., None],
    engines: dict[str, docker.APIClient],
    job_id: str,
) -> None:
    tune(REPORTS, "300", "0.1")
    wait_for_reports(service, job_id, 20)

    before = agents_of(engines)
    for machine, agent in before.items():
        engines[machine].kill(agent, signal.SIGKILL)
    until_state(training, job_id, JobState.SUCCEEDED)

    assert set(before) == set(engines) == set(agents_of(engines))
    assert not set(before.values()) & set(agents_of(engines).values())
    assert steps_of_trials(service, job_id) == [list(range(1, 301))] * 3
    assert not [line for line in messages(training, job_id) if "lost" in line]


@pytest.mark.extended
def test_a_service_that_is_killed_loses_no_report_however_many_are_made_meanwhile(
    service: Service,
    training: TrainingClient,
    tune: Callable[..., None],
    engines: dict[str, docker.APIClient],
    job_id: str,
) -> None:
    tune(REPORTS, "1500", "0.02")
    wait_for_reports(service, job_id, 100)

    service.end(signal.SIGKILL)
    # Many more than the 100 that the trainer's file keeps.
    wait_until(lambda: files_waiting(service) >= 3 * 300, "agents keep the reports", seconds=60)
    service.start()
    until_state(training, job_id, JobState.SUCCEEDED)

    assert steps_of_trials(service, job_id) == [list(range(1, 1501))] * 3
    assert not [line for line in messages(training, job_id) if "lost" in line]


def files_waiting(service: Service) -> int:
    """Return how many files of reports lie on all machines."""
    folder = Path(service.environment["TRAINING_AGENT_FOLDER"])
    return sum(1 for _ in folder.glob("*/*/*/*/spool/*"))


@pytest.mark.extended
@pytest.mark.proves("curves of jobs", on="swarm with agents")
def test_a_job_that_is_no_study_has_its_curve(
    service: Service, training: TrainingClient, agent_image: ImageRef, job_id: str
) -> None:
    with OpsClient(service.url, PROJECT) as ops:
        check_that_a_job_has_its_curve(training, ops, str(agent_image), job_id)


def submit(
    training: TrainingClient, image: ImageRef, job_id: str, program: str, account: str | None = None
) -> None:
    """Submit a master and three workers that all run ``program``."""
    config = ReplicaConfig(image_uri=str(image), container_command=["python3", "-u", "-c", program])
    training_input = TrainingInput(
        scale_tier="CUSTOM",
        master_type="n1-standard-4",
        master_config=config,
        worker_type="n1-standard-4",
        worker_count=3,
        worker_config=config,
        service_account=account,
    )
    training.create_job(Job(job_id=job_id, training_input=training_input))


@pytest.mark.extended
@pytest.mark.proves("use: CPU and memory of replicas", on="swarm with agents")
def test_replicas_on_every_machine_have_samples_of_their_use(
    service: Service,
    training: TrainingClient,
    agent_image: ImageRef,
    engines: dict[str, docker.APIClient],
    job_id: str,
) -> None:
    submit(training, agent_image, job_id, BUSY)
    until_state(training, job_id, JobState.RUNNING)

    def are_sampled() -> bool:
        with OpsClient(service.url, PROJECT) as ops:
            series = ops.usage(job_id).series
        return len(series) == 4 and all(len(one.times) >= 4 for one in series)

    wait_until(are_sampled, "each replica has four samples", seconds=120)
    assert machines_of(engines, job_id) == set(engines)
    training.cancel_job(job_id)
    until_state(training, job_id, JobState.CANCELLED)

    with OpsClient(service.url, PROJECT) as ops:
        series = ops.usage(job_id).series
    for one in series:
        assert max(one.memory_bytes) > 64 * 2**20
        assert 0.05 < max(one.cpu_cores) <= 1.5
        # Of a played driver.
        assert set(one.gpus) == {played_nvml.BUSY_PERCENT / 100}
        assert set(one.gpu_memory_bytes) == {played_nvml.MEMORY_BYTES}


@pytest.mark.proves("running out of memory is reported at once", on="swarm with agents")
def test_a_full_memory_on_another_machine_is_told_at_the_first_run(
    service: Service,
    training: TrainingClient,
    agent_image: ImageRef,
    engines: dict[str, docker.APIClient],
    job_id: str,
) -> None:
    submit(training, agent_image, job_id, FULL)
    wait_until(
        lambda: sum(line.endswith(": ready") for line in messages(training, job_id)) == 4,
        "all replicas are ready",
        seconds=120,
    )

    # The manager's own engine would tell the service itself.
    far = engines["node3"]
    (item, *_) = far.containers(filters={"label": f"container-training.job={job_id}"})
    far.kill(item["Id"], signal.SIGUSR1)
    job = until_state(training, job_id, JobState.FAILED)

    with OpsClient(service.url, PROJECT) as ops:
        reason = ops.job(job_id).job.reason
    assert reason is not None
    assert reason.cause is Cause.OUT_OF_MEMORY
    assert not [line for line in messages(training, job_id) if "restart 1 of" in line], job.error_message


def containers_of(engines: dict[str, docker.APIClient], job_id: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the job's containers on all machines, with the machine's name."""
    label = {"label": f"container-training.job={job_id}"}
    return [(name, item) for name, engine in engines.items() for item in engine.containers(filters=label)]


def lines_of(engines: dict[str, docker.APIClient], job_id: str) -> list[str]:
    """Return what the job's containers have printed, as their engines have it."""
    return [
        line
        for name, item in containers_of(engines, job_id)
        for line in engines[name].logs(item["Id"]).decode().splitlines()
    ]


def wait_for_lines(engines: dict[str, docker.APIClient], job_id: str, line: str, count: int) -> None:
    """Return when the job's containers have printed ``count`` lines that begin so."""
    wait_until(
        lambda: sum(each.startswith(line) for each in lines_of(engines, job_id)) >= count,
        f"{count} lines {line!r} are printed",
        seconds=120,
    )


def ask_as_stranger(engine: docker.APIClient, image: ImageRef, network: str, labels: dict[str, str]) -> str:
    """Ask for a token from a container that is no replica; return how that ended."""
    made = engine.create_container(
        image.pullable,
        ["python3", "-c", STRANGER, "host.docker.internal:8475"],
        labels=labels,
        host_config=engine.create_host_config(
            network_mode=network, extra_hosts={"host.docker.internal": "host-gateway"}
        ),
    )["Id"]
    try:
        engine.start(made)
        engine.wait(made)
        return engine.logs(made).decode().strip()
    finally:
        engine.remove_container(made, force=True)


@pytest.mark.extended
@pytest.mark.proves("metadata endpoint", on="swarm with agents")
def test_replicas_on_every_machine_get_the_tokens_of_their_jobs_account(
    service: Service,
    training: TrainingClient,
    agent_image: ImageRef,
    engines: dict[str, docker.APIClient],
    job_id: str,
) -> None:
    submit(training, agent_image, job_id, WHO, ACCOUNT)
    wait_for_lines(engines, job_id, "WHO ", 4)

    assert machines_of(engines, job_id) == set(engines)
    found = [json.loads(line.removeprefix("WHO ")) for line in lines_of(engines, job_id) if "WHO " in line]
    tokens = IdentityTokens(SigningKey.load_or_make(service.database.parent))
    assert {(project, email) for project, email, _ in found} == {(PROJECT, ACCOUNT)}
    callers = [Authenticator({}, tokens).caller_of(token).principal for _, _, token in found]
    assert callers == [f"serviceAccount:{ACCOUNT}"] * 4

    # On a machine of replicas: without the labels of one, with stolen ones, and in another network.
    name, replica = containers_of(engines, job_id)[0]
    engine, bridge = engines[name], "docker_gwbridge"
    stolen = {key: value for key, value in replica["Labels"].items() if key.startswith("container-training.")}
    assert ask_as_stranger(engine, agent_image, bridge, {}) == "403"
    assert ask_as_stranger(engine, agent_image, bridge, stolen) == "503"
    assert ask_as_stranger(engine, agent_image, "bridge", {}) == "Connection refused"

    service.end(signal.SIGKILL)
    wait_for_lines(engines, job_id, "DOWN, KEPT", 4)
    service.start()
    wait_for_lines(engines, job_id, "UP", 4)
    agents = agents_of(engines)
    logs = [engines[name].logs(agent).decode() for name, agent in agents.items()]
    for name, agent in agents.items():
        engines[name].kill(agent, signal.SIGKILL)
    wait_for_lines(engines, job_id, "UP", 8)
    training.cancel_job(job_id)
    until_state(training, job_id, JobState.CANCELLED)

    logs.append((service.database.parent / "service.log").read_text())
    assert not [token for _, _, token in found for log in logs if token in log]


def made_by_earlier_version(manager: docker.APIClient, service_id: str, launch: AgentLaunch) -> str:
    """Make the one service for all machines that versions before ADR 0045 made; return its id."""
    labels = {AGENT_OF: service_id}
    content = launch.token_of("all")
    secret = manager.create_secret(agent_secret_name(service_id, content), content.encode(), labels)["ID"]
    spec = agent_service_spec(service_id, "all", launch, {"agent-token": secret})
    del spec["TaskTemplate"]["Placement"]
    spec["Name"] = f"ct-agent-{service_id}"
    return str(post(manager, "/services/create", spec, headers=pull_headers(""))["ID"])


def tokens_of(engines: dict[str, docker.APIClient], label: dict[str, list[str]]) -> dict[str, str]:
    """Return the token of each machine whose agent runs."""
    found = {}
    for name, engine in engines.items():
        for item in engine.containers(filters=label):
            command = engine.exec_create(item["Id"], ["cat", "/run/secrets/agent-token"])
            found[name] = engine.exec_start(command["Id"]).decode()
    return found


def test_agents_are_made_updated_and_removed_by_their_service(
    swarm: Swarm, agent_image: ImageRef, engines: dict[str, docker.APIClient]
) -> None:
    service_id, manager = f"test-{uuid.uuid4().hex[:12]}", engines["node1"]
    label = {"label": [f"container-training.agent-of={service_id}"]}
    launch = AgentLaunch(
        image=agent_image.pullable,
        url="http://127.0.0.1:9",
        token_of="first-{}".format,
        folder=str(swarm.disk),
    )

    def confine(agent: AgentLaunch | None) -> None:
        engine = SwarmEngine(service_id, swarm.manager.docker_host, agent=agent)
        engine.confine()
        engine.close()

    earlier = made_by_earlier_version(manager, service_id, launch)
    confine(launch)
    assert earlier not in {item["ID"] for item in manager.services(filters=label)}
    wait_until(
        lambda: all(engine.containers(filters=label) for engine in engines.values()),
        "each machine has the agent",
        seconds=120,
    )
    made = {item["ID"]: item["Version"] for item in manager.services(filters=label)}
    assert len(made) == len(engines)
    confine(launch)
    assert {item["ID"]: item["Version"] for item in manager.services(filters=label)} == made

    secret = uuid.uuid4().hex
    other = replace(launch, token_of=lambda machine: f"{machine}-{secret}")

    expected = {node["Description"]["Hostname"]: f"{node['ID']}-{secret}" for node in manager.nodes()}

    confine(other)
    wait_until(
        lambda: tokens_of(engines, label) == expected,
        "each agent has its own token",
        seconds=120,
        ignoring=docker.errors.APIError,  # of an agent that just ends
    )
    confine(other)
    updated = manager.services(filters=label)
    assert {item["ID"] for item in updated} == made.keys()
    assert len(manager.secrets(filters=label)) == len(engines)
    shown = []
    for engine in engines.values():
        for item in engine.containers(filters=label):
            with suppress(docker.errors.NotFound):  # an agent from before the change that ends now
                shown.append(engine.inspect_container(item["Id"]))
    assert len(shown) >= len(engines)
    assert secret not in json.dumps([updated, *shown])

    confine(None)
    assert (manager.services(filters=label), manager.secrets(filters=label)) == ([], [])
    wait_until(
        lambda: not any(engine.containers(all=True, filters=label) for engine in engines.values()),
        "no machine has an agent",
        seconds=120,
    )


def test_folders_go_with_their_jobs_and_strangers_are_turned_away(service: Service) -> None:
    folder = Path(service.environment["TRAINING_AGENT_FOLDER"])

    wait_until(lambda: not list(folder.glob("*/*/*")), "the folders of ended jobs are gone", seconds=60)
    for headers in ({}, {"Authorization": "Bearer guess"}):
        answer = web.post(f"{service.url}/agent/v1/streams:sync", json={"node": "n"}, headers=headers)
        assert answer.status_code == 401
