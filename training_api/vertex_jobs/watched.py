"""A job as Vertex AI answers it, as people see it: a row of a table, and a page. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from training_api.dialects.ml_v1.job_rows import JobDetail, JobRow
from training_api.dialects.ml_v1.resources import HyperparameterOutput, Job, TrainingInput
from training_api.dialects.ml_v1.search import study_from_wire
from training_api.dialects.vertex_v1.dialect import VERTEX_V1
from training_api.dialects.vertex_v1.pool_tasks import image_of, task_of
from training_api.fleet.job_detail import PoolView, StudyView, TrialView
from training_api.fleet.wire import TrialCounts
from training_api.states import JobState
from training_api.vertex_jobs.failures import reason_of
from training_api.vertex_jobs.reader import job_of

#: What of a resource a client has sent; all else the service has added.
_ASKED = frozenset(
    {
        "displayName",
        "encryptionSpec",
        "jobSpec",
        "labels",
        "maxFailedTrialCount",
        "maxTrialCount",
        "parallelTrialCount",
        "studySpec",
        "trialJobSpec",
    }
)
_UNSPECIFIED = "ACCELERATOR_TYPE_UNSPECIFIED"


def row_of(resource: Mapping[str, Any], now: datetime) -> JobRow:
    """
    Return the row of a ``CustomJob`` or ``HyperparameterTuningJob``.

    :param now: until when a job that runs is billed.
    :raises ValidationError: it is no job.
    """
    return _row(resource, job_of(resource), now)


def detail_of(resource: Mapping[str, Any], now: datetime) -> JobDetail:
    """Return the page of a job. :raises ValidationError: it is no job."""
    job = job_of(resource)
    training = job.training_input or TrainingInput()
    job_spec = resource.get("trialJobSpec") or resource.get("jobSpec", {})
    scheduling = job_spec.get("scheduling", {})
    search = training.hyperparameters
    return JobDetail(
        job=_row(resource, job, now),
        name=resource["name"],
        region=training.region or "",
        pools=list(_pools(job_spec.get("workerPoolSpecs", []))),
        output_dir=training.job_dir or "",
        max_wait_seconds=_seconds(scheduling.get("maxWaitDuration")),
        max_running_seconds=_seconds(scheduling.get("timeout")),
        request={name: value for name, value in resource.items() if name in _ASKED},
        study=StudyView.of(study_from_wire(search)) if search else None,
        trials=[_trial(each) for each in _trials(job)],
    )


def _row(resource: Mapping[str, Any], job: Job, now: datetime) -> JobRow:
    trials = _trials(job)
    is_tuning = job.training_output is not None
    timed: list[Job | HyperparameterOutput] = [*trials] if is_tuning else [job]
    ended = sum(each.end_time is not None for each in trials)
    return JobRow.model_validate(
        {
            "jobId": job.job_id,
            "dialect": VERTEX_V1.name,
            "displayName": resource.get("displayName", ""),
            "state": job.state or JobState.QUEUED,  # JOB_STATE_UNSPECIFIED
            "labels": job.labels or {},
            "createTime": resource.get("createTime"),
            "startTime": resource.get("startTime"),
            "endTime": resource.get("endTime"),
            "errorMessage": job.error_message,
            "reason": reason_of(job.state, job.error_message or ""),
            "trainingInput": job.training_input or TrainingInput(),
            "trials": TrialCounts(total=len(trials), ended=ended) if is_tuning else None,
            "billedSeconds": sum(_ran(each, now) for each in timed),
        }
    )


def _ran(timed: Job | HyperparameterOutput, now: datetime) -> float:
    """Return the seconds of RUNNING so far."""
    if timed.start_time is None:
        return 0.0
    return max(((timed.end_time or now) - timed.start_time).total_seconds(), 0.0)


def _trials(job: Job) -> list[HyperparameterOutput]:
    return list(job.training_output.trials or []) if job.training_output else []


def _trial(trial: HyperparameterOutput) -> TrialView:
    final = trial.final_metric
    return TrialView(
        trial_id=trial.trial_id or "",
        state=trial.state or JobState.QUEUED,
        is_stopped_early=bool(trial.is_trial_stopped_early),
        parameters=trial.hyperparameters or {},
        objective=final.objective_value if final else None,
        step=final.training_step if final else None,
        start_time=trial.start_time,
        end_time=trial.end_time,
    )


def _pools(pools: list[Mapping[str, Any]]) -> Iterator[PoolView]:
    for number, pool in enumerate(pools):
        machine, task = pool.get("machineSpec", {}), task_of(pool)
        if not task:
            continue  # a place that is left empty keeps the numbers of those after it
        accelerator = str(machine.get("acceleratorType", _UNSPECIFIED))
        yield PoolView(
            name=f"workerpool{number}",
            count=int(pool.get("replicaCount", 1)),
            machine_type=machine.get("machineType", ""),
            accelerator="" if accelerator == _UNSPECIFIED else accelerator,
            accelerator_count=int(machine.get("acceleratorCount", 0)),
            image=image_of(pool),
            command=list(task.get("command", ())),
            args=list(task.get("args", ())),
        )


def _seconds(duration: str | None) -> float | None:
    """Return the seconds of a ``Duration`` such as ``3600s``; ``None``: no limit."""
    return float(duration.removesuffix("s")) or None if duration else None
