"""
The example DAGs of three frameworks under the real scheduler.

Their replicas train together, on images made on this machine; some of these train on Vertex AI, too.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import docker
import pytest

from local_stack.people.airflow_api import AirflowApi
from local_stack.settings import REPOSITORY_ROOT
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run, wait_until
from tests.support.bed.job_watch import messages
from tests.support.bed.real_parts import push_image
from tests.support.bed.vertex import create, ended
from tests.support.selection import is_asked_for
from tests.support.speed import scaled
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.job.image_ref import parse_image_ref
from training_api.job.results import JobResult
from training_api.states import JobState

#: The first build on a machine downloads a framework: a few hundred MB.
BUILD_SECONDS = 1200.0
pytestmark = [pytest.mark.docker, pytest.mark.e2e, pytest.mark.timeout(BUILD_SECONDS + 300)]

TRAINERS = REPOSITORY_ROOT / "docker" / "trainers"
#: Fixture -> DAG and epochs.
DAGS = {
    "tensorflow": ("train_tensorflow_ps", 5),
    "pytorch": ("train_pytorch_ddp", 5),
    "xgboost": ("train_xgboost", 8),
}
GRADIENT_TOLERANCE = 1e-5
SAVED_MODEL = {"saved_model.pb", "fingerprint.pb", "variables.index", "variables.data-00000-of-00001"}


class Trained:
    """A run that has ended well: its DAG run, its result, and the job as the service has it."""

    def __init__(self, run: Run, stack: LocalStack) -> None:
        self.run = run
        self.run.wait_for_success(patience_seconds=BUILD_SECONDS)
        self.result = JobResult.model_validate(self.run.xcom("train.collect"))
        with TrainingClient(stack.settings.training_url, stack.settings.project) as training:
            job = training.get_job(self.result.job_id)
            entries = training.list_log_entries(job_log_filter(self.result.job_id), page_size=1000).entries
        assert job.training_input is not None
        self.input: TrainingInput = job.training_input
        self.lines = [f"{entry.task_name}: {entry.message}" for entry in entries or []]


def run_by_hand(image: str | None) -> str:
    """Run the image as the guide tests it: alone, one epoch."""
    assert image is not None
    command = ["docker", "run", "--rm", "--network=none", image, "--epochs", "1"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=scaled(120)).stdout


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, airflow: AirflowApi, engine_client: docker.APIClient
) -> Iterator[dict[str, Run]]:
    """
    A run of each framework that a test asks for, side by side.

    The first run on a machine downloads the framework. The engine keeps the frameworks for the next tests,
    whose registry, and so their names, will be others.
    """
    runs = {
        framework: Run.start(airflow, dag_id, {"epochs": epochs})
        for framework, (dag_id, epochs) in DAGS.items()
        if is_asked_for(request, framework)
    }
    yield runs
    for run in runs.values():
        image = parse_image_ref(run.xcom("framework"))
        engine_client.tag(str(image), f"localhost/container-training/{image.path_in_project}", image.tag)


@pytest.fixture(scope="module")
def pytorch(runs: dict[str, Run], stack: LocalStack) -> Trained:
    return Trained(runs["pytorch"], stack)


@pytest.fixture(scope="module")
def tensorflow(runs: dict[str, Run], stack: LocalStack) -> Trained:
    return Trained(runs["tensorflow"], stack)


@pytest.fixture(scope="module")
def xgboost(runs: dict[str, Run], stack: LocalStack) -> Trained:
    return Trained(runs["xgboost"], stack)


@pytest.mark.extended
@pytest.mark.proves("DAGs whose jobs have several replicas", on="one machine")
def test_three_pytorch_replicas_have_the_gradient_of_one_process(pytorch: Trained) -> None:
    metrics = pytorch.result.metrics

    assert metrics["replicas"] == 3
    assert metrics["gradient_difference"] <= GRADIENT_TOLERANCE
    # What a replica computes from its part alone is another gradient: the one above is a result of the
    # exchange.
    assert metrics["gradient_difference_unshared"] > 1000 * GRADIENT_TOLERANCE


@pytest.mark.extended
def test_three_pytorch_replicas_learn_the_digits(pytorch: Trained) -> None:
    assert pytorch.result.metrics["accuracy"] >= 0.85
    assert pytorch.result.model_uri == f"{pytorch.result.job_dir}/model.pt"
    assert {
        "master-replica-0: rank 0 of 3 is there",
        "worker-replica-0: rank 1 of 3 is there",
        "worker-replica-1: rank 2 of 3 is there",
    } <= set(pytorch.lines)


@pytest.mark.extended
def test_the_pytorch_image_runs_by_hand(pytorch: Trained) -> None:
    assert '"replicas": 1' in run_by_hand(pytorch.result.image)


@pytest.mark.extended
def test_pytorch_replicas_begin_anew_when_one_of_them_is_killed(
    pytorch: Trained, training: TrainingClient, engine_client: docker.APIClient, job_id: str
) -> None:
    folder = f"{pytorch.result.job_dir}_again"
    given = pytorch.input.model_copy(update={"args": ["--epochs", "150"], "job_dir": folder})
    training.create_job(Job(job_id=job_id, training_input=given))

    def lines() -> str:
        return "\n".join(
            entry.message
            for entry in training.list_log_entries(job_log_filter(job_id), page_size=1000).entries or []
        )

    wait_until(lambda: "epoch 2/150" in lines(), "the replicas train")
    (worker,) = engine_client.containers(
        filters={
            "label": [
                f"container-training.job={job_id}",
                "container-training.role=worker",
                "container-training.index=0",
            ]
        }
    )
    engine_client.kill(worker["Id"])
    wait_until(lambda: bool((state := training.get_job(job_id).state) and state.is_terminal), "the job ends")

    job = training.get_job(job_id)
    assert job.state is JobState.SUCCEEDED, job.error_message
    assert "worker-replica-0 restart 1 of 5" in lines()
    assert "a peer is gone, starting again" in lines()
    assert lines().count("rank 0 of 3 is there") >= 2


@pytest.mark.extended
def test_tensorflow_keeps_its_variables_on_the_parameter_server(tensorflow: Trained) -> None:
    metrics = tensorflow.result.metrics

    assert (metrics["workers"], metrics["parameter_servers"], metrics["steps"]) == (2, 1, 225)
    assert metrics["variable_devices"] == ["/job:ps/replica:0/task:0/device:CPU:0"]
    assert metrics["accuracy"] >= 0.85
    for line in (
        "worker-replica-0: worker 0 serves",
        "worker-replica-1: worker 1 serves",
        "ps-replica-0: ps 0",
    ):
        assert any(logged.startswith(line) for logged in tensorflow.lines), line


@pytest.mark.extended
def test_tensorflow_leaves_a_saved_model(tensorflow: Trained) -> None:
    names = {file.uri.rpartition("/")[2] for file in tensorflow.result.files}

    assert names == {*SAVED_MODEL, "metrics.json"}
    assert tensorflow.result.model_uri == f"{tensorflow.result.job_dir}/model/saved_model.pb"


@pytest.mark.extended
def test_each_role_of_tensorflow_runs_an_image_of_its_own(tensorflow: Trained) -> None:
    given = tensorflow.input
    images = {
        config.image_uri
        for config in (given.master_config, given.worker_config, given.parameter_server_config)
        if config is not None
    }

    assert len(images) == 3
    assert given.use_chief_in_tf_config


@pytest.mark.extended
def test_the_tensorflow_images_run_by_hand(tensorflow: Trained) -> None:
    given = tensorflow.input
    assert given.worker_config is not None
    assert given.parameter_server_config is not None

    assert '"workers": 0' in run_by_hand(tensorflow.result.image)
    for image in (given.worker_config.image_uri, given.parameter_server_config.image_uri):
        assert "no cluster: a server at" in run_by_hand(image)


def test_xgboost_meets_at_its_own_tracker_and_uses_the_rows_of_all(xgboost: Trained) -> None:
    metrics = xgboost.result.metrics

    assert (metrics["replicas"], metrics["train_rows"], metrics["epochs"]) == (3, 1437, 8)
    assert metrics["accuracy"] >= 0.85
    for name in ("master-replica-0", "worker-replica-0", "worker-replica-1"):
        assert any(line.startswith(f"{name}: rank ") for line in xgboost.lines), name


@pytest.mark.extended
def test_a_framework_is_built_once_a_machine(
    xgboost: Trained, airflow: AirflowApi, stack: LocalStack
) -> None:
    alone = Trained(Run.start(airflow, "train_xgboost", {"epochs": 2, "workers": 0}), stack)

    assert alone.run.xcom("framework") == xgboost.run.xcom("framework")
    assert "is on the engine already" in alone.run.log("framework")
    assert alone.result.image == xgboost.result.image
    assert alone.result.metrics["replicas"] == 1


@pytest.fixture(scope="module")
def mirrored_image(tensorflow: Trained, stack: LocalStack, engine_client: docker.APIClient) -> Iterator[str]:
    """The trainer ``tensorflow_mirrored``, on the framework's image."""
    dockerfile, local = "tensorflow_mirrored/Dockerfile", "localhost/tensorflow-mirrored:test"
    command = ["docker", "build", "--quiet", f"--tag={local}", f"--file={TRAINERS / dockerfile}"]
    command += [f"--build-arg=BASE_IMAGE={tensorflow.run.xcom('framework')}", str(TRAINERS)]
    subprocess.run(command, check=True, timeout=scaled(120))
    repository, digest = push_image(stack.settings, engine_client, local, "tensorflow-mirrored")
    yield f"{repository}@{digest}"
    engine_client.remove_image(f"{repository}:test")
    engine_client.remove_image(local)


def train_on_vertex(
    locations: Any, stack: LocalStack, training: TrainingClient, image: str, *args: str
) -> tuple[dict[str, Any], list[str]]:
    """Run a master and two workers as a CustomJob; return it when it has ended, and its lines."""
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "containerSpec": {"imageUri": image, "args": list(args)},
    }
    spec = {
        "workerPoolSpecs": [pool | {"replicaCount": "1"}, pool | {"replicaCount": "2"}],
        "baseOutputDirectory": {"outputUriPrefix": f"{stack.settings.job_bucket}/{uuid.uuid4().hex}"},
    }
    jobs = locations.customJobs()
    name = create(jobs, stack.settings.project, {"displayName": "distributed", "jobSpec": spec})
    return ended(jobs, name), messages(training, name.rpartition("/")[2])


def metrics_in(lines: list[str]) -> dict[str, Any]:
    """Return the metrics that the chief wrote into the log."""
    (line,) = [line for line in lines if line.startswith("workerpool0-0: metrics: ")]
    found: dict[str, Any] = json.loads(line.partition("metrics: ")[2])
    return found


@pytest.mark.extended
def test_the_same_pytorch_image_trains_in_the_pools_of_vertex_ai(
    pytorch: Trained, locations: Any, stack: LocalStack, training: TrainingClient
) -> None:
    assert pytorch.result.image is not None
    args = ("--epochs=5", "--check-gradient")

    job, lines = train_on_vertex(locations, stack, training, pytorch.result.image, *args)

    assert job["state"] == "JOB_STATE_SUCCEEDED", job
    assert {
        "workerpool0-0: rank 0 of 3 is there",
        "workerpool1-0: rank 1 of 3 is there",
        "workerpool1-1: rank 2 of 3 is there",
    } <= set(lines)
    metrics = metrics_in(lines)
    assert metrics == {name: pytorch.result.metrics[name] for name in metrics}
    folder = job["jobSpec"]["baseOutputDirectory"]["outputUriPrefix"]
    assert any(line.startswith(f"workerpool0-0: wrote {folder}/model/model.pt ") for line in lines)


@pytest.mark.extended
def test_mirrored_tensorflow_replicas_share_their_gradients_on_vertex_ai(
    mirrored_image: str, locations: Any, stack: LocalStack, training: TrainingClient
) -> None:
    job, lines = train_on_vertex(locations, stack, training, mirrored_image, "--epochs=5")

    assert job["state"] == "JOB_STATE_SUCCEEDED", job
    for rank, name in enumerate(("workerpool0-0", "workerpool1-0", "workerpool1-1")):
        assert f"{name}: rank {rank} of 3 is there" in lines
        (told,) = [line for line in lines if line.startswith(f"{name}: rank {rank}: ")]
        differences = json.loads(told.partition(f"rank {rank}: ")[2])
        assert differences["gradient_difference"] <= GRADIENT_TOLERANCE
        assert differences["gradient_difference_unshared"] > 1000 * GRADIENT_TOLERANCE
    metrics = metrics_in(lines)
    assert metrics["replicas"] == 3
    assert metrics["accuracy"] >= 0.85
    folder = job["jobSpec"]["baseOutputDirectory"]["outputUriPrefix"]
    assert any(
        line.startswith(f"workerpool0-0: wrote {folder}/model/model/saved_model.pb ") for line in lines
    )


@pytest.mark.extended
def test_the_mirrored_tensorflow_image_runs_by_hand(mirrored_image: str) -> None:
    assert '"replicas": 1' in run_by_hand(mirrored_image)
