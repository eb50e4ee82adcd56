"""Metrics of real containers: the unmodified ``cloudml-hypertune``, and summary files."""

from __future__ import annotations

import io
from collections.abc import Iterator

import docker
import pytest

from local_stack.people.credentials import developers_header, registry_login
from local_stack.stack import LocalStack
from tests.support.bed.real_parts import PROJECT
from tests.support.bed.tuning_jobs import (
    check_that_a_job_has_its_curve,
    check_that_trials_are_stopped_early,
    put_summary_file,
    run_trial,
)
from training_api.clients.fleet import OpsClient
from training_api.clients.training import TrainingClient
from training_api.states import JobState

pytestmark = pytest.mark.docker

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


@pytest.mark.proves("tuning: cloudml-hypertune", on="one machine")
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


@pytest.mark.proves("tuning: TensorFlow's summary files", on="one machine")
def test_summary_files_in_the_job_directory_are_read(
    training: TrainingClient, stack: LocalStack, trainer: str, job_id: str
) -> None:
    job_dir = put_summary_file(stack.settings.object_store_url, job_id)

    steps = run_trial(training, job_id, trainer, "print('done')", JobState.SUCCEEDED, job_dir)

    assert steps == [1, 2, 3, 4, 5]


@pytest.mark.proves("tuning: early stopping", on="one machine")
def test_trials_that_get_nowhere_are_stopped_early(
    training: TrainingClient, trainer: str, job_id: str
) -> None:
    check_that_trials_are_stopped_early(training, trainer, job_id)


@pytest.mark.proves("curves of jobs", on="one machine")
def test_a_job_that_is_no_study_has_its_curve(
    training: TrainingClient, stack: LocalStack, trainer: str, job_id: str
) -> None:
    settings = stack.settings
    with OpsClient(settings.training_url, PROJECT, headers=developers_header(settings)) as ops:
        check_that_a_job_has_its_curve(training, ops, trainer, job_id)
