"""
Jobs of the training service on Podman.

They find each other and report metrics, whatever is killed meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from container_engines.base import METRIC_FILE
from container_engines.docker.engine import DockerEngine
from container_engines.labels import SERVICE
from local_stack.stack import LocalStack
from tests.contract.engine_benches import make_launch, new_service_id
from tests.support.bed.job_watch import messages, until_state
from tests.support.bed.podman import Podman
from tests.support.bed.service_process import ServiceProcess
from tests.support.waiting import wait_until
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
from training_api.errors import EngineError
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.needs_root, pytest.mark.needs_program("podman")]

#: Workers serve their index under their names in the cluster; the master asks both of them.
MEET = """
import json, os, time, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
spec = json.loads(os.environ["CLUSTER_SPEC"])
class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(spec["task"]["index"]).encode())
if spec["task"]["type"] == "worker":
    HTTPServer(("", 2222), Answer).serve_forever()
met = []
for host in spec["cluster"]["worker"]:
    for _ in range(1200):
        try:
            met.append(urllib.request.urlopen("http://" + host, timeout=5).read().decode())
            break
        except OSError:
            time.sleep(0.1)
print("met", sorted(met), flush=True)
"""
LINES = 60
COUNTS = f"""
import time
for number in range({LINES}):
    print(number, flush=True)
    time.sleep(0.1)
"""
#: As cloudml-hypertune writes it.
REPORTS = f"""
import json, os, time
assert os.environ["CLOUD_ML_HP_METRIC_FILE"] == {METRIC_FILE!r}
for step in range(1, 51):
    line = {{"timestamp": time.time(), "trial": os.environ["CLOUD_ML_TRIAL_ID"],
            "accuracy": str(step / 100), "global_step": str(step)}}
    with open({METRIC_FILE!r}, "a") as file:
        file.write(json.dumps(line) + "\\n")
"""
SLEEPS = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture(scope="module")
def service(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service whose engine is Podman."""
    service = ServiceProcess(
        tmp_path_factory.mktemp("service"),
        TRAINING_DOCKER_HOST=podman.docker_host,
        TRAINING_STOP_GRACE_SECONDS="2",
    )
    service.start()
    yield service
    service.kill()


@pytest.fixture
def training(service: ServiceProcess) -> Iterator[TrainingClient]:
    with service.client() as training:
        yield training


@pytest.fixture
def runs(podman_image: ImageRef) -> Callable[[str], ReplicaConfig]:
    """Return a replica with a program."""

    def runs(program: str) -> ReplicaConfig:
        return ReplicaConfig(image_uri=str(podman_image), container_command=["python3", "-u", "-c", program])

    return runs


@pytest.fixture(autouse=True)
def nothing_is_left(podman: Podman, service: ServiceProcess) -> Iterator[None]:
    """After each test the service's containers and networks are gone."""
    yield
    label = {"label": f"{SERVICE}={service.service_id}"}
    with closing(podman.client()) as client:
        wait_until(
            lambda: not client.containers(all=True, filters=label) and not client.networks(filters=label),
            "containers and networks are gone",
            seconds=120,
        )


def submit(training: TrainingClient, job_id: str, **training_input: Any) -> None:
    training.create_job(
        Job(job_id=job_id, training_input=TrainingInput(region="us-central1", **training_input))
    )


def lines_of(training: TrainingClient, job_id: str) -> list[str]:
    """Return what the master has printed."""
    found = [line.partition(": ") for line in messages(training, job_id)]
    return [text for task, _, text in found if task == "master-replica-0"]


def test_a_master_and_two_workers_find_each_other_by_name(
    training: TrainingClient, runs: Callable[[str], ReplicaConfig], job_id: str
) -> None:
    submit(
        training,
        job_id,
        scale_tier="CUSTOM",
        master_type="n1-standard-4",
        master_config=runs(MEET),
        worker_type="n1-standard-4",
        worker_count=2,
        worker_config=runs(MEET),
    )

    until_state(training, job_id, JobState.SUCCEEDED)

    assert "met ['0', '1']" in lines_of(training, job_id)


def test_the_reports_of_a_trial_become_its_measurements(
    training: TrainingClient, runs: Callable[[str], ReplicaConfig], job_id: str
) -> None:
    rate = ParameterSpec(parameter_name="lr", type=ParameterType.DOUBLE, min_value=0.1, max_value=1.0)
    search = HyperparameterSpec(
        goal=Goal.MAXIMIZE, hyperparameter_metric_tag="accuracy", max_trials=2, params=[rate]
    )

    submit(training, job_id, master_config=runs(REPORTS), hyperparameters=search)

    output = until_state(training, job_id, JobState.SUCCEEDED).training_output
    assert output is not None
    steps = [[metric.training_step for metric in trial.all_metrics or []] for trial in output.trials or []]
    assert steps == [list(range(1, 51))] * 2


def test_a_cancelled_job_ends(
    training: TrainingClient, runs: Callable[[str], ReplicaConfig], job_id: str
) -> None:
    submit(training, job_id, master_config=runs(SLEEPS))
    until_state(training, job_id, JobState.RUNNING)

    training.cancel_job(job_id)

    until_state(training, job_id, JobState.CANCELLED)


def test_a_job_outlives_kills_of_podmans_service_and_of_ours_and_its_log_is_whole(
    training: TrainingClient,
    service: ServiceProcess,
    podman: Podman,
    runs: Callable[[str], ReplicaConfig],
    job_id: str,
) -> None:
    submit(training, job_id, master_config=runs(COUNTS))
    wait_until(lambda: "3" in lines_of(training, job_id), "the job prints")

    podman.kill()
    podman.start()
    wait_until(lambda: "20" in lines_of(training, job_id), "its lines come again")
    service.kill()
    podman.kill()
    podman.start()
    service.start()

    until_state(training, job_id, JobState.SUCCEEDED)
    numbers = [line for line in lines_of(training, job_id) if line.isdigit()]
    assert numbers == [str(number) for number in range(LINES)]


def test_a_private_image_is_pulled_with_the_services_token(
    podman: Podman,
    stack: LocalStack,
    pushed_image: ImageRef,
    tmp_path: Path,
    job_id: str,
) -> None:
    """From the stack's registry, with whose key this service signs, too."""
    service = ServiceProcess(
        tmp_path,
        TRAINING_DOCKER_HOST=podman.docker_host,
        TRAINING_KEY_DIR=str(stack.settings.key_dir),
        TRAINING_REGISTRY=stack.settings.registry,
    )
    service.start()
    try:
        with service.client() as training:
            program = ["python3", "-c", "print(42)"]
            config = ReplicaConfig(image_uri=str(pushed_image), container_command=program)
            submit(training, job_id, master_config=config)

            until_state(training, job_id, JobState.SUCCEEDED)

            assert "42" in lines_of(training, job_id)
        with closing(DockerEngine(service.service_id, podman.docker_host)) as engine:
            wait_until(
                lambda: not engine.observe().job_uids,
                "nothing is left of the job",
                ignoring=EngineError,  # Podman 4.3 lists no networks while it removes a container
            )
    finally:
        service.kill()


def test_a_container_is_bounded_unprivileged_and_knows_its_machine(
    podman: Podman, podman_image: ImageRef
) -> None:
    program = (
        "import json, re, socket; s = open('/proc/self/status').read(); "
        "print(json.dumps([dict(re.findall(r'(NoNewPrivs|Seccomp|CapEff):\\s+(\\S+)', s)), "
        "socket.gethostbyname('host.docker.internal')]))"
    )
    with closing(DockerEngine(new_service_id(), podman.docker_host)) as engine:
        launch = make_launch(engine.pull_image(podman_image).image_id, ("python3", "-c", program))
        engine.start_replica(launch)
        (replica,) = wait_until(
            lambda: [each for each in engine.observe().replicas if each.exit_code is not None],
            "it has ended",
        )
        (line,) = engine.read_logs(replica.container_id, 0)
        with closing(podman.client()) as client:
            made = client.inspect_container(replica.container_id)
            gateway = client.inspect_network(f"ct-{launch.job_uid}")["IPAM"]["Config"][0]["Gateway"]
        engine.remove_job(launch.job_uid)

    status, machine = json.loads(line.text)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert not int(status["CapEff"], 16) & (1 << 13)  # NET_RAW
    assert machine == gateway
    host = made["HostConfig"]
    assert host["Memory"] == host["MemorySwap"] == launch.resources.memory_bytes
    assert (host["NanoCpus"], host["PidsLimit"], host["Privileged"]) == (10**9, 64, False)


def test_the_lines_of_a_second_keep_their_order_and_long_ones_are_whole(
    podman: Podman, podman_image: ImageRef
) -> None:
    program = "for i in range(300): print(i, 'x' * (40_000 if i == 150 else 1), flush=True)"
    with closing(DockerEngine(new_service_id(), podman.docker_host)) as engine:
        launch = make_launch(engine.pull_image(podman_image).image_id, ("python3", "-c", program))
        engine.start_replica(launch)
        (container,) = [each.container_id for each in engine.observe().replicas]
        followed = list(engine.read_logs(container, 0))
        again = list(engine.read_logs(container, 0, follow=False))
        later = list(engine.read_logs(container, again[200].timestamp_ns, follow=False))
        engine.remove_job(launch.job_uid)

    assert [line.text for line in again] == [f"{i} {'x' * (40_000 if i == 150 else 1)}" for i in range(300)]
    assert followed == again
    assert later == again[200:]
