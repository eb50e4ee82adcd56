"""Tuning jobs that tests run alike on one machine and on a swarm."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tests.support.bed.job_watch import until_state
from tests.support.bed.real_parts import PROJECT
from training_api.clients.fleet import OpsClient
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import (
    Goal,
    HyperparameterOutput,
    HyperparameterSpec,
    Job,
    ParameterSpec,
    ParameterType,
    ReplicaConfig,
    SearchAlgorithm,
    TrainingInput,
)
from training_api.states import JobState

TAG = "accuracy"
_EVENTS = Path(__file__).parents[2] / "unit" / "training_service" / "intake" / "events"
_RATE = ParameterSpec(parameter_name="lr", type=ParameterType.DOUBLE, min_value=0.1, max_value=1.0)
_KINDS = ["a", "b", "c", "d"]
#: Reports a number of times, with a pause in seconds between two, by cloudml-hypertune.
REPORTS = """
import sys, time, hypertune
reporter = hypertune.HyperTune()
count, pause = int(sys.argv[1]), float(sys.argv[2])
for step in range(1, count + 1):
    reporter.report_hyperparameter_tuning_metric("accuracy", step / count, step)
    time.sleep(pause)
print("reported", flush=True)
"""
#: The first five trials are good; the others rise so slowly that early stopping ends them.
_STOPPED_EARLY = """
import os, time, hypertune
is_good = int(os.environ["CLOUD_ML_TRIAL_ID"]) <= 5
reporter = hypertune.HyperTune()
for step in range(1, 41 if is_good else 1001):
    reporter.report_hyperparameter_tuning_metric("accuracy", step / 40 if is_good else step / 1e6, step)
    time.sleep(0.1)
"""
#: Reports once, without a package, as cloudml-hypertune does.
_REPORTS_ONCE = (
    "import json, os\n"
    "report = {'global_step': '1', 'timestamp': 1.0, 'trial': '1', 'accuracy': '0.5'}\n"
    "open(os.environ['CLOUD_ML_HP_METRIC_FILE'], 'w').write(json.dumps(report) + '\\n')\n"
)


def run_trial(
    training: TrainingClient, job_id: str, image: str, program: str, state: JobState, job_dir: str = ""
) -> list[int]:
    """Run a tuning job of one trial to ``state``; return the steps of its reports in order."""
    search = HyperparameterSpec(
        goal=Goal.MAXIMIZE, hyperparameter_metric_tag=TAG, max_trials=1, params=[_RATE]
    )
    (trial,) = _run(training, job_id, image, program, search, state, job_dir)
    return [metric.training_step or 0 for metric in trial.all_metrics or []]


def put_summary_file(store_url: str, job_id: str) -> str:
    """
    Put TensorFlow's summary file of trial 1, with steps 1 to 5, into a new bucket.

    :return: the ``jobDir`` of the tuning job.
    """
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    client = storage.Client(
        project=PROJECT, credentials=AnonymousCredentials(), client_options={"api_endpoint": store_url}
    )
    with closing(client):
        bucket = client.create_bucket(f"summaries-{job_id.replace('_', '-')}")
        blob = bucket.blob(f"{job_id}/1/eval/events.out.tfevents.1.host")
        blob.upload_from_filename(str(_EVENTS / "tf1-0.tfevents"))
    return f"gs://{bucket.name}/{job_id}"


def check_that_a_study_is_resumed(training: TrainingClient, image: str, job_id: str) -> None:
    """
    Run half of a grid, and the other half in a second tuning job that resumes the first.

    The second job's numbers continue those of the first, and it tries what the first has left.
    """
    kind = ParameterSpec(
        parameter_name="kind", type=ParameterType.CATEGORICAL, categorical_values=list(_KINDS)
    )
    half = HyperparameterSpec(
        goal=Goal.MAXIMIZE,
        hyperparameter_metric_tag=TAG,
        algorithm=SearchAlgorithm.GRID_SEARCH,
        max_trials=len(_KINDS) // 2,
        max_parallel_trials=len(_KINDS) // 2,
        params=[kind],
    )

    first = _run(training, job_id, image, _REPORTS_ONCE, half)
    other_half = half.model_copy(update={"resume_previous_job_id": job_id})
    second = _run(training, f"{job_id}_resumed", image, _REPORTS_ONCE, other_half)

    trials = [*first, *second]
    assert [trial.trial_id for trial in trials] == ["1", "2", "3", "4"]
    assert sorted((trial.hyperparameters or {})["kind"] for trial in trials) == _KINDS
    assert [len(trial.all_metrics or []) for trial in trials] == [1] * 4


def check_that_trials_are_stopped_early(training: TrainingClient, image: str, job_id: str) -> None:
    """Run five good trials, and three that get nowhere: of these one is stopped, and no other."""
    search = HyperparameterSpec(
        goal=Goal.MAXIMIZE,
        hyperparameter_metric_tag=TAG,
        max_trials=8,
        max_parallel_trials=3,
        enable_trial_early_stopping=True,
        params=[_RATE],
    )

    trials = _run(training, job_id, image, _STOPPED_EARLY, search)

    stopped = {trial.trial_id for trial in trials if trial.is_trial_stopped_early}
    assert stopped
    assert stopped <= {"6", "7", "8"}


def check_that_a_job_has_its_curve(training: TrainingClient, ops: OpsClient, image: str, job_id: str) -> None:
    """Run a job that is no study and reports 50 times; its curve has each step."""
    config = ReplicaConfig(image_uri=image, container_command=["python3", "-c", REPORTS, "50", "0.01"])
    training.create_job(Job(job_id=job_id, training_input=TrainingInput(master_config=config)))
    until_state(training, job_id, JobState.SUCCEEDED)

    (curve,) = ops.curves(job_id).curves
    assert curve.steps == list(range(1, 51))


def _run(
    training: TrainingClient,
    job_id: str,
    image: str,
    program: str,
    search: HyperparameterSpec,
    state: JobState = JobState.SUCCEEDED,
    job_dir: str = "",
) -> list[HyperparameterOutput]:
    """Run a tuning job to ``state``; return its trials."""
    master = ReplicaConfig(image_uri=image, container_command=["python3", "-c", program])
    training_input = TrainingInput(master_config=master, hyperparameters=search, job_dir=job_dir or None)
    training.create_job(Job(job_id=job_id, training_input=training_input))
    output = until_state(training, job_id, state).training_output
    assert output is not None
    return output.trials or []
