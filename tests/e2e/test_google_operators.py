"""Google's operators for Vertex AI train real containers, under the real scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
import pytest

from local_stack.parts.base_image import pack_context
from local_stack.people.airflow_api import AirflowApi
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run
from tests.support.bed.job_watch import messages
from tests.support.bed.object_store import connect
from tests.support.bed.real_parts import PROJECT
from tests.support.bed.vertex import OFFLINE, PREBUILT, aliases, source_package
from tests.support.run_id import current_run
from training_api.clients.training import TrainingClient
from training_api.job.image_ref import ImageRef

pytestmark = [pytest.mark.docker, pytest.mark.e2e, pytest.mark.timeout(1200)]

DAGS = Path(__file__).parent / "vertex_dags"
PATIENCE_SECONDS = 480.0
TRAINER = "import sys\nprint('trained with', sys.argv[1:])\n"
#: What the tuning job of Airflow's system tests runs, and what runs in its place.
HORSES = "us-docker.pkg.dev/composer-256318/horse-human/horse-human-image"
HORSES_HERE = "localhost/horse-human:test"
#: The metric falls with the distance from 0.1.
HORSES_DOCKERFILE = """\
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY task.py /task.py
ENTRYPOINT ["python3", "/task.py"]
"""
HORSES_TASK = """\
import argparse, json, os, time
parser = argparse.ArgumentParser()
for name in ("learning_rate", "momentum", "num_neurons"):
    parser.add_argument(f"--{name}", type=float, required=True)
rate = parser.parse_args().learning_rate
with open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "a") as file:
    values = {"timestamp": time.time(), "trial": os.environ["CLOUD_ML_TRIAL_ID"], "global_step": "1"}
    print(json.dumps(values | {"accuracy": str(1 - abs(rate - 0.1))}), file=file)
"""


@pytest.fixture(scope="module", autouse=True)
def dags(
    airflow: AirflowApi,
    extra_dags: Path,
    pushed_image: ImageRef,
    stack: LocalStack,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """The DAGs, as long as this module's tests run: reading them takes as long as a task."""
    script = tmp_path_factory.mktemp("script") / "task.py"
    script.write_text(TRAINER)
    package = f"gs://{stack.settings.bucket}/{current_run().id}/trainer-0.0.0.tar.gz"
    with closing(connect(stack.settings.object_store_url)) as store:
        store.write_if_changed(package, source_package(TRAINER), "application/gzip")
    values = {
        "image": str(pushed_image),
        "project": PROJECT,
        "bucket": stack.settings.bucket,
        "tag": current_run().id,
        "prebuilt": PREBUILT,
        "package": package,
        "script": str(script),
        "variables": OFFLINE,
    }
    written = []
    for dag_file in DAGS.glob("*.py"):
        text = dag_file.read_text("utf-8")
        for name, value in values.items():
            text = text.replace(f'"{{{name}}}"', repr(value))
        written.append(extra_dags / dag_file.name)
        written[-1].write_text(text, "utf-8")
    yield
    for file in written:
        file.unlink()


@pytest.fixture
def horses(stack: LocalStack, engine_client: docker.APIClient, base_image: str) -> Iterator[None]:
    """The service has a trainer for the image of Airflow's system test."""
    files = {"Dockerfile": HORSES_DOCKERFILE.encode(), "task.py": HORSES_TASK.encode()}
    lines = engine_client.build(
        fileobj=pack_context(files),
        custom_context=True,
        tag=HORSES_HERE,
        buildargs={"BASE_IMAGE": base_image},
        rm=True,
        decode=True,
    )
    assert not [line for line in lines if "error" in line]
    with aliases(stack, {HORSES: HORSES_HERE}):
        yield
    engine_client.remove_image(HORSES_HERE, force=True)


def test_a_custom_job_that_fails_has_its_text(airflow: AirflowApi) -> None:
    run = Run.start(airflow, "google_custom_jobs")
    run.wait_for_end(patience_seconds=PATIENCE_SECONDS)

    assert run.states() == {"fail_sync": "failed", "fail_deferred": "failed"}
    assert "exited with a non-zero status of 7" in run.log("fail_sync")


@pytest.mark.extended
def test_training_pipelines_are_created_listed_and_deleted(airflow: AirflowApi) -> None:
    run = Run.start(airflow, "google_training_pipelines")

    run.wait_for_success(patience_seconds=PATIENCE_SECONDS)
    (listed,) = run.xcom("list")
    assert listed["state"] == 4  # PIPELINE_STATE_SUCCEEDED


@pytest.mark.extended
def test_packages_and_scripts_are_trained_and_deleted(airflow: AirflowApi, training: TrainingClient) -> None:
    run = Run.start(airflow, "google_packages")

    run.wait_for_success(patience_seconds=PATIENCE_SECONDS)
    for name in ("sync", "deferred"):
        lines = messages(training, run.xcom(f"script_{name}", key="custom_job_id"))
        assert "workerpool0-0: trained with ['--of', 'the script']" in lines
        assert run.xcom(f"script_{name}", key="model_id")
        log = run.log(f"delete_{name}")
        assert "Training pipeline was deleted." in log
        assert "Custom job was deleted." in log


def test_the_custom_jobs_of_airflows_system_tests_run_as_they_are(airflow: AirflowApi) -> None:
    runs = [
        Run.start(airflow, dag_id)
        for dag_id in ("vertex_ai_create_custom_job", "vertex_ai_custom_job_operations_list_custom_job")
    ]

    for run in runs:
        run.wait_for_success(patience_seconds=PATIENCE_SECONDS)


@pytest.mark.extended
@pytest.mark.usefixtures("horses")
def test_the_tuning_jobs_of_airflows_system_tests_run_as_they_are(airflow: AirflowApi) -> None:
    run = Run.start(airflow, "vertex_ai_hyperparameter_tuning_job_operations")

    run.wait_for_success(patience_seconds=PATIENCE_SECONDS)
    trials = run.xcom("get_hyperparameter_tuning_job")["trials"]
    assert [trial["state"] for trial in trials] == [4] * 15  # SUCCEEDED
    for trial in trials:
        (rate,) = [each["value"] for each in trial["parameters"] if each["parameter_id"] == "learning_rate"]
        (metric,) = trial["final_measurement"]["metrics"]
        assert metric == {"metric_id": "accuracy", "value": pytest.approx(1 - abs(rate - 0.1))}
