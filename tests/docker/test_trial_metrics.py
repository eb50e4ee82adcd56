"""Metrics of real containers: the unmodified ``cloudml-hypertune``, and summary files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
import pytest

from local_stack.people.credentials import registry_login
from local_stack.stack import LocalStack
from tests.support.bed.job_watch import until_state
from tests.support.bed.real_parts import PROJECT
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
from training_api.states import JobState

pytestmark = pytest.mark.docker

TAG = "accuracy"
EVENTS = Path(__file__).parents[1] / "unit" / "training_service" / "intake" / "events"
#: The trainer runs as a user of its own, with the package from PyPI.
DOCKERFILE = """
FROM {base}
RUN pip install --no-cache-dir cloudml-hypertune==0.1.0.dev6 && useradd trainer
USER trainer
"""
TIGHT_LOOP = """
import os, hypertune
assert os.getuid() != 0
reporter = hypertune.HyperTune()
for step in range(1, 1001):
    reporter.report_hyperparameter_tuning_metric("accuracy", step / 1000, step)
"""
#: A signal that is not the machine's: the trial is not started again.
CRASHES = """
import os, signal, hypertune
for step in range(1, 301):
    hypertune.HyperTune().report_hyperparameter_tuning_metric("accuracy", step / 1000, step)
os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.fixture(scope="module")
def trainer(stack: LocalStack, engine_client: docker.APIClient, base_image: str) -> Iterator[str]:
    """An image with the package, in the stack's registry."""
    name = f"127.0.0.1:{stack.settings.registry_port}/{PROJECT}/reporter"
    dockerfile = io.BytesIO(DOCKERFILE.format(base=base_image).encode())
    built = list(engine_client.build(fileobj=dockerfile, tag=f"{name}:test", decode=True, rm=True))
    assert not [line for line in built if "error" in line], built[-3:]
    login = registry_login(stack.settings)
    pushed = list(engine_client.push(name, tag="test", stream=True, decode=True, auth_config=login))
    assert not [line for line in pushed if "error" in line]
    yield f"{name}:test"
    engine_client.remove_image(f"{name}:test", force=True)


def run_trial(
    training: TrainingClient, job_id: str, image: str, program: str, state: JobState, job_dir: str = ""
) -> list[int]:
    """Run a tuning job of one trial to ``state``; return the steps of its reports in order."""
    learning_rate = ParameterSpec(
        parameter_name="lr", type=ParameterType.DOUBLE, min_value=0.1, max_value=1.0
    )
    search = HyperparameterSpec(
        goal=Goal.MAXIMIZE, hyperparameter_metric_tag=TAG, max_trials=1, params=[learning_rate]
    )
    master = ReplicaConfig(image_uri=image, container_command=["python3", "-c", program])
    training_input = TrainingInput(master_config=master, hyperparameters=search, job_dir=job_dir or None)

    training.create_job(Job(job_id=job_id, training_input=training_input))

    output = until_state(training, job_id, state).training_output
    assert output is not None
    (trial,) = output.trials or []
    return [metric.training_step or 0 for metric in trial.all_metrics or []]


def test_a_tight_loop_of_the_real_package_loses_no_report(
    training: TrainingClient, trainer: str, job_id: str
) -> None:
    steps = run_trial(training, job_id, trainer, TIGHT_LOOP, JobState.SUCCEEDED)

    assert steps == list(range(1, 1001))


def test_what_a_trainer_reported_before_it_crashed_is_there(
    training: TrainingClient, trainer: str, job_id: str
) -> None:
    steps = run_trial(training, job_id, trainer, CRASHES, JobState.FAILED)

    assert steps == list(range(1, 301))


def test_summary_files_in_the_job_directory_are_read(
    training: TrainingClient, stack: LocalStack, trainer: str, job_id: str
) -> None:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    client = storage.Client(
        project=PROJECT,
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": stack.settings.object_store_url},
    )
    name = f"{job_id}/1/eval/events.out.tfevents.1.host"
    with closing(client):
        bucket = client.create_bucket(f"summaries-{job_id.replace('_', '-')}")
        bucket.blob(name).upload_from_filename(str(EVENTS / "tf1-0.tfevents"))

    steps = run_trial(
        training, job_id, trainer, "print('done')", JobState.SUCCEEDED, f"gs://{bucket.name}/{job_id}"
    )

    assert steps == [1, 2, 3, 4, 5]
