"""Jobs of packages for real: the example DAG, signals, and packages that cannot run."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import pytest

from container_training.work.object_store import ObjectStore
from container_training.work.packages.trainer_package import build_package
from local_stack.parts.airflow import airflow_environment
from local_stack.parts.runtime_image import runtime_image
from local_stack.processes.progress import Progress
from local_stack.stack import LocalStack
from tests.support.bed.job_watch import until_end
from tests.support.run_id import current_run
from tests.support.waiting import wait_until
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.errors import ServiceError
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

DAGS = Path(__file__).parents[2] / "dags"


@pytest.fixture
def store(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", stack.settings.object_store_url)
    client = storage.Client(project=stack.settings.project, credentials=AnonymousCredentials())
    with closing(ObjectStore(client)) as store:
        yield store


@pytest.fixture
def submit(
    stack: LocalStack, store: ObjectStore, training: TrainingClient, job_id: str, tmp_path: Path
) -> Callable[..., str]:
    """Package a ``trainer.task`` with the given source, upload it, submit a job; return its id."""

    def submit(task: str, **more: Any) -> str:
        folder = tmp_path / "trainer"
        folder.mkdir()
        (folder / "__init__.py").touch()
        (folder / "task.py").write_text(task)
        package = build_package(folder)
        uri = package.uri_below(f"gs://{stack.settings.bucket}/staging")
        store.write_if_changed(uri, package.content, "application/x-tar")
        create(training, job_id, uri, **more)
        return job_id

    return submit


def create(training: TrainingClient, job_id: str, uri: str, **more: Any) -> None:
    job_input = TrainingInput(
        package_uris=[uri], python_module="trainer.task", runtime_version="2.1", python_version="3.7", **more
    )
    training.create_job(Job(job_id=job_id, training_input=job_input))


def log_of(training: TrainingClient, job_id: str) -> str:
    entries = training.list_log_entries(job_log_filter(job_id)).entries or []
    return "\n".join(entry.message for entry in entries)


def test_the_example_dag_goes_from_a_folder_to_collected_results(
    stack: LocalStack,
    base_image: str,
    store: ObjectStore,
    training: TrainingClient,
    register_dag: Callable[[Any], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from airflow.dag_processing.dagbag import DagBag

    for name, value in airflow_environment(stack.settings, base_image=base_image).items():
        if not name.startswith("AIRFLOW_") or name.startswith("AIRFLOW_CONN_"):
            monkeypatch.setenv(name, value)
    bag = DagBag(str(DAGS / "train_package.py"), collect_dags=False)
    bag.collect_dags(str(DAGS / "train_package.py"))
    dag = register_dag(bag.dags["train_package"])

    run = dag.test(run_conf={"steps": 100})

    assert {task.task_id: task.state for task in run.get_task_instances()} == dict.fromkeys(
        ["package", "submit", "wait_until_finished", "collect"], "success"
    )
    (job,) = [job for job in training.list_jobs().jobs or [] if "train_package" in (job.job_id or "")]
    job_dir = f"{stack.settings.job_bucket}/{job.job_id}"
    assert (job.training_input or TrainingInput()).args == ["--steps", "100"]
    assert json.loads(store.read(f"{job_dir}/metrics.json", 1000) or b"")["loss"] < 0.1
    assert {"slope", "intercept"} == set(json.loads(store.read(f"{job_dir}/model.json", 1000) or b""))


def test_a_cancel_reaches_the_trainer_itself(submit: Callable[..., str], training: TrainingClient) -> None:
    job_id = submit(
        "import os, signal, sys, time\n"
        "def stop(number, frame):\n"
        "    print('asked to stop', flush=True)\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "print('up as', os.getuid(), 'in', os.getcwd(), flush=True)\n"
        "time.sleep(600)\n"
    )
    wait_until(lambda: "up as" in log_of(training, job_id), "the trainer is up", seconds=120)

    training.cancel_job(job_id)
    job = until_end(training, job_id)

    assert job.state is JobState.CANCELLED
    log = log_of(training, job_id)
    assert "up as 65534 in /tmp" in log
    assert "asked to stop" in log


#: The job ends with its master, which therefore waits until the worker has said who it is.
GREETING = """\
import json, os, socket, time
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]["type"]
print("I am", task, flush=True)
host, _, port = config["cluster"]["master"][0].rpartition(":")
while task == "worker":
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
        break
    except OSError:
        time.sleep(0.2)
if task == "master":
    socket.create_server(("", int(port))).accept()
"""


@pytest.mark.extended
@pytest.mark.proves("jobs of packages", on="one machine")
def test_every_replica_runs_the_package_on_the_runtime_image(
    submit: Callable[..., str], training: TrainingClient
) -> None:
    job_id = submit(
        GREETING,
        scale_tier="CUSTOM",
        master_type="standard",
        worker_type="standard",
        worker_count=1,
    )

    job = until_end(training, job_id)

    assert job.state is JobState.SUCCEEDED, job.error_message
    assert {"I am master", "I am worker"} <= set(log_of(training, job_id).splitlines())


def test_a_package_that_is_not_there_is_refused(
    stack: LocalStack, training: TrainingClient, job_id: str
) -> None:
    uri = f"gs://{stack.settings.bucket}/absent/trainer-0.0.0.tar.gz"

    with pytest.raises(ServiceError, match=f"there is no {re.escape(uri)}"):
        create(training, job_id, uri)


#: Asks to be started again as soon as there is the object ``go``.
RESTARTS = """\
import os, sys, time, urllib.error, urllib.request
print("up", flush=True)
while True:
    try:
        urllib.request.urlopen(os.environ["STORAGE_EMULATOR_HOST"] + "/storage/v1/b/BUCKET/o/GO").close()
        sys.exit(138)
    except urllib.error.HTTPError:
        time.sleep(0.2)
"""


@pytest.mark.extended
def test_a_package_that_is_replaced_before_a_restart_does_not_run(
    stack: LocalStack, store: ObjectStore, submit: Callable[..., str], training: TrainingClient, job_id: str
) -> None:
    bucket, go = stack.settings.bucket, f"{job_id}-go"
    submit(RESTARTS.replace("BUCKET", bucket).replace("GO", go))
    wait_until(lambda: "up" in log_of(training, job_id).splitlines(), "the trainer is up", seconds=120)
    (uri,) = (training.get_job(job_id).training_input or TrainingInput()).package_uris or []
    submitted = store.find(uri)
    assert submitted

    store.write_if_changed(uri, b"what somebody else wants to run", "application/x-tar")
    store.write_if_changed(f"gs://{bucket}/{go}", b"", "text/plain")
    job = until_end(training, job_id)

    assert job.error_message == "The replica master 0 exited with a non-zero status of 66."
    gone = f"The job cannot start: generation {submitted.generation} of {uri} is gone"
    assert gone in log_of(training, job_id)


def test_the_runtime_image_is_built_once_and_by_its_content(
    base_image: str, engine_client: docker.APIClient, capsys: pytest.CaptureFixture[str]
) -> None:
    # A base image of its own: other sessions use the image of the real one.
    base = current_run().image(f"base:{uuid.uuid4().hex}")
    repository, tag = base.rsplit(":", 1)
    engine_client.tag(base_image, repository, tag)
    client = docker.from_env()
    image = runtime_image(base)
    name = image.name
    try:
        image.ensure(client, Progress())
        first = engine_client.inspect_image(name)
        image.ensure(client, Progress())

        assert capsys.readouterr().err.count("building the runtime image") == 2  # its beginning and its end
        assert first["Config"]["User"] == "65534:65534"
        assert engine_client.inspect_image(name)["Id"] == first["Id"]
        assert runtime_image(base_image).name != name
    finally:
        client.close()
        for image in (name, base):
            engine_client.remove_image(image, force=True)
