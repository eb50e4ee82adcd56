"""A tuning job from a file that gcloud submits, and what gcloud shows of its trials."""

from __future__ import annotations

import math
import re
import uuid
from pathlib import Path

import pytest

from local_stack.stack import LocalStack
from tests.conformance.conftest import Gcloud
from tests.support.bed.job_watch import until_state
from tests.support.bed.real_parts import PROJECT
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import HyperparameterOutput
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.timeout(300)]

#: Reports as cloudml-hypertune does: one JSON object a line, step and metric as strings.
TRAINER = """
import argparse, json, math, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--units", type=int, required=True)
parser.add_argument("--kernel", required=True)
given = parser.parse_args()
assert json.loads(os.environ["TF_CONFIG"])["task"]["trial"] == os.environ["CLOUD_ML_TRIAL_ID"]
accuracy = 1 - abs(math.log10(given.lr) + 2) / 4 - given.units / 1000
report = {"checkpoint_path": "", "global_step": "7", "trial": os.environ["CLOUD_ML_TRIAL_ID"],
          "timestamp": time.time(), os.environ["CLOUD_ML_HP_METRIC_TAG"]: str(accuracy)}
with open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "w") as file:
    file.write(json.dumps(report) + "\\n")
print("trained with", given)
"""
CONFIG = """
trainingInput:
  hyperparameters:
    goal: MAXIMIZE
    hyperparameterMetricTag: accuracy
    maxTrials: 4
    maxParallelTrials: 2
    enableTrialEarlyStopping: true
    params:
    - parameterName: lr
      type: DOUBLE
      minValue: 0.0001
      maxValue: 0.1
      scaleType: UNIT_LOG_SCALE
    - parameterName: units
      type: DISCRETE
      discreteValues: [16, 32, 64]
    - parameterName: kernel
      type: CATEGORICAL
      categoricalValues: [rbf, linear]
"""


@pytest.fixture(scope="module")
def tuned(
    gcloud: Gcloud,
    stack: LocalStack,
    pushed_image: ImageRef,
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    """The id of a tuning job that gcloud submitted and that has succeeded."""
    job_id = f"tuning_{uuid.uuid4().hex[:8]}"
    config = Path(tmp_path_factory.mktemp("tuning") / "config.yaml")
    config.write_text(CONFIG, encoding="utf-8")
    where = ("--region", "us-central1", "--master-image-uri", str(pushed_image), "--config", config)
    command = ("python3", "-c", TRAINER)
    done = gcloud("ai-platform", "jobs", "submit", "training", job_id, *where, "--", *command)
    assert done.returncode == 0, done.stderr
    with TrainingClient(stack.settings.training_url, PROJECT) as training:
        until_state(training, job_id, JobState.SUCCEEDED)
    return job_id


def trials_of(training: TrainingClient, job_id: str) -> list[HyperparameterOutput]:
    output = training.get_job(job_id).training_output
    assert output is not None
    assert output.is_hyperparameter_tuning_job is True
    assert output.completed_trial_count == 4
    return output.trials or []


def test_each_trial_ran_with_values_of_the_space_and_has_what_it_reported(
    tuned: str, training: TrainingClient
) -> None:
    for trial in trials_of(training, tuned):
        given = trial.hyperparameters or {}
        assert 0.0001 <= float(given["lr"]) <= 0.1
        assert given["units"] in ("16", "32", "64")
        assert given["kernel"] in ("rbf", "linear")
        expected = 1 - abs(math.log10(float(given["lr"])) + 2) / 4 - int(given["units"]) / 1000
        assert trial.final_metric is not None
        assert trial.final_metric.objective_value == pytest.approx(expected)
        assert trial.final_metric.training_step == 7


def test_describe_shows_the_trials(gcloud: Gcloud, tuned: str) -> None:
    done = gcloud("ai-platform", "jobs", "describe", tuned)

    assert done.returncode == 0, done.stderr
    assert "isHyperparameterTuningJob: true" in done.stdout
    assert "completedTrialCount: '4'" in done.stdout
    assert re.findall(r"trialId: '(\d+)'", done.stdout) == ["1", "2", "3", "4"]


def test_describe_summarizes_the_trials(gcloud: Gcloud, training: TrainingClient, tuned: str) -> None:
    done = gcloud("ai-platform", "jobs", "describe", tuned, "--summarize")

    assert done.returncode == 0, done.stderr
    assert re.search(r"OBJECTIVE_VALUE", done.stdout)
    for trial in trials_of(training, tuned):
        assert (trial.hyperparameters or {})["lr"] in done.stdout


def test_the_log_of_one_trial_can_be_read(gcloud: Gcloud, tuned: str) -> None:
    wanted = f'resource.labels.job_id="{tuned}" AND labels."ml.googleapis.com/trial_id"="2"'
    done = gcloud("logging", "read", wanted, "--format=value(textPayload)")

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("trained with") == 1
