"""Jobs as AI Platform Training v1 shows them. Pure."""

from __future__ import annotations

from training_api.dialects.ml_v1.reader import read_request
from training_api.dialects.ml_v1.resources import (
    HyperparameterMetric,
    HyperparameterOutput,
    Job,
    ListJobsResponse,
    TrainingOutput,
)
from training_api.job.tuning.measurement import Report
from training_service.model.records import etag
from training_service.model.tuning_output import TrialOutput, TuningOutput
from training_service.use_cases.jobs import JobPage, JobView


def job_of(view: JobView) -> Job:
    """Return the API's resource of a job. Pure."""
    record = view.record
    return Job(
        job_id=record.spec.job_id,
        labels=record.spec.labels or None,
        training_input=read_request(record.request),
        training_output=training_output(view.tuning) if view.tuning else None,
        state=record.state,
        create_time=record.created_at,
        start_time=record.running_at,
        end_time=record.ended_at,
        error_message=record.error_message or None,
        job_position=view.position,
        etag=etag(record.version),
    )


def page_of(page: JobPage) -> ListJobsResponse:
    """Return the API's answer with a page of jobs. Pure."""
    return ListJobsResponse(
        jobs=[job_of(view) for view in page.jobs] or None, next_page_token=page.next_page_token or None
    )


def training_output(tuning: TuningOutput) -> TrainingOutput:
    """
    Return the output of one tuning job. Pure.

    All trials are shown, including those that run or failed, and ``state`` tells them apart. The document
    says "for each SUCCESSFUL trial" [discovery].
    """
    return TrainingOutput(
        is_hyperparameter_tuning_job=True,
        hyperparameter_metric_tag=tuning.metric_tag,
        completed_trial_count=tuning.completed_trials,
        trials=[_trial(each) for each in tuning.trials] or None,
    )


def _trial(output: TrialOutput) -> HyperparameterOutput:
    trial = output.trial
    return HyperparameterOutput(
        trial_id=str(trial.number),
        hyperparameters=dict(trial.hyperparameters),
        state=trial.state,
        start_time=trial.running_at,
        end_time=trial.ended_at,
        final_metric=_metric(output.final) if output.final else None,
        all_metrics=[_metric(each) for each in output.reports] or None,
        is_trial_stopped_early=True if trial.stopped else None,
    )


def _metric(report: Report) -> HyperparameterMetric:
    return HyperparameterMetric(objective_value=report.value, training_step=report.step)
