"""A job leaves a service without room for it, and its model is registered in Vertex AI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.people.airflow_api import AirflowApi
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run
from tests.support import web
from tests.support.bed.real_parts import PROJECT
from tests.support.bed.tiny_trainer import write_trainer
from tests.support.run_id import current_run
from training_api.job.results import JobResult
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.e2e, pytest.mark.timeout(900), pytest.mark.extended]

DAG_ID = "burst_and_register"
#: No container of the tests' service gets the memory of this machine.
MACHINE = "n1-highmem-96"
DAG_FILE = """
from airflow.sdk import DAG

from container_training.operators.burst import Burst
from container_training.operators.models import RegisterModelOperator
from container_training.pipeline import training_pipeline

CONNECTION = "conn.training_default.extra_dejson"

with DAG("{dag_id}", schedule=None):
    train = training_pipeline(
        context_dir="{context}",
        image=f"{{{{ {CONNECTION}.image_prefix }}}}/{image}",
        build_args={"BASE_IMAGE": f"{{{{ {CONNECTION}.base_image }}}}"},
        preflight=False,
        master_type="{machine}",
        scale_tier="CUSTOM",
        backends=["training_default", "training_vertex"],
        when=Burst(queue_minutes=5),
        reuse_results=True,
    )
    RegisterModelOperator(
        task_id="register",
        result=train.result,
        model_folder="{folder}",
        vertex_model={"container_spec": {"image_uri": "us-docker.pkg.dev/vertex-ai/prediction/sklearn-cpu.1-5:latest"}},
        vertex_region="us-central1",
    )
"""


@pytest.fixture(scope="module")
def run(
    airflow: AirflowApi, extra_dags: Path, stack: LocalStack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Run]:
    """A run of the DAG that has ended well."""
    name = f"burst-{current_run().id}"
    values = {
        "dag_id": DAG_ID,
        "machine": MACHINE,
        "context": str(write_trainer(tmp_path_factory.mktemp("burst"), name=name)),
        "image": name,
        "folder": f"gs://{stack.settings.bucket}/models/{name}",
    }
    text = DAG_FILE
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    file = extra_dags / "burst.py"
    file.write_text(text, "utf-8")
    try:
        run = Run.start(airflow, DAG_ID)
        run.wait_for_success(patience_seconds=480)
        yield run
    finally:
        file.unlink()


def test_the_job_goes_to_the_next_service_and_the_task_says_why(run: Run) -> None:
    reason = run.xcom("train.choose_service", "reason")

    assert run.xcom("train.choose_service", "training_conn_id") == "training_vertex"
    assert f"not training_default: {MACHINE} has 96 cores and 624 GiB, the largest container" in reason
    assert reason.removeprefix("not ") in run.log("train.choose_service")
    # Neither service has trained this image before.
    assert run.xcom("train.submit", "reused") is False
    assert run.xcom("train.submit", "training_conn_id") == "training_vertex"
    result = JobResult.model_validate(run.xcom("train.collect"))
    assert result.state is JobState.SUCCEEDED
    # By Vertex AI's API, which gives each job a number.
    assert result.job_id.isdecimal()
    assert result.metrics["accuracy"] == 0.5


def test_its_model_is_in_vertex_ais_model_registry(run: Run, stack: LocalStack) -> None:
    version = run.xcom("register")

    name, _, number = version["vertex_model"].partition("@")
    place = f"projects/{PROJECT}/locations/us-central1/models/{name.rpartition('/')[2]}"
    found = web.get(f"{stack.settings.training_url}/vertex/v1/{place}").raise_for_status().json()
    assert (found["name"], number) == (name, "1")
    assert found["artifactUri"].startswith(f"gs://{stack.settings.bucket}/models/")
