"""How this service reads and answers the resources of Vertex AI."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from docs.tools.fidelity.probe import Probe, Refusal
from training_api.causes import Cause
from training_api.dialects.vertex_v1.pipelines.reader import (
    CUSTOM_TASK,
    INPUTS,
    check_task,
    job_of_pipeline,
    pipeline_request_of,
)
from training_api.dialects.vertex_v1.reader import custom_job_spec, request_of
from training_api.dialects.vertex_v1.tuning.reader import tuning_job_spec, tuning_request_of
from training_api.errors import InvalidJobSpec, InvalidRequest
from training_api.job.job_spec import JobSpec
from training_api.job.tuning.measurement import Report
from training_api.states import JobState
from training_service.api.vertex_v1.canonical import canonical
from training_service.api.vertex_v1.pipelines.pipeline_methods import read_inputs
from training_service.api.vertex_v1.pipelines.pipeline_writer import training_pipeline
from training_service.api.vertex_v1.tuning_writer import tuning_job
from training_service.api.vertex_v1.writer import custom_job
from training_service.model.pipelines import PipelineRecord
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord, TrialSummary
from training_service.model.tuning_output import TrialOutput, TuningOutput
from training_service.use_cases.jobs import JobView

_WHEN = datetime(2026, 1, 31, 12, tzinfo=UTC)
_UNKNOWN = "Cannot find field."
_IDENTITY = ("project", "us-central1", "1234567890123456789")
_FAILED = Reason(cause=Cause.UNKNOWN, message="It failed.")
_POOLS = {
    "workerPoolSpecs": [
        {
            "machineSpec": {"machineType": "n1-standard-4"},
            "replicaCount": "1",
            "containerSpec": {"imageUri": "registry.example/project/trainer:1"},
        }
    ]
}


class VertexProbe(Probe):
    """A resource whose requests are messages."""

    message: ClassVar[str]

    @abstractmethod
    def answer_in(self, request: Mapping[str, Any], state: JobState) -> Mapping[str, Any]:
        """
        Return the answer for a resource in ``state``.

        :raises InvalidRequest: the request cannot be read.
        :raises InvalidJobSpec: it breaks rules.
        """

    def is_readable(self, request: Mapping[str, Any]) -> bool:
        try:
            canonical(self.message, request)
        except InvalidRequest as error:
            # Not a field of a oneof beside another one of it.
            return not any(violation.description.endswith(_UNKNOWN) for violation in error.violations)
        return True

    def refusals(self, request: Mapping[str, Any]) -> Iterable[Refusal]:
        try:
            self.answer(request)
        except (InvalidRequest, InvalidJobSpec) as error:
            return [(violation.field, violation.description) for violation in error.violations]
        return []

    def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.answer_in(request, JobState.QUEUED)

    def answers(self) -> Iterator[Mapping[str, Any]]:
        for state in JobState:
            yield self.answer_in(self.minimal, state)


class CustomJobProbe(VertexProbe):
    """The CustomJobs of Vertex AI."""

    message = "CustomJob"
    minimal = {"displayName": "job", "jobSpec": _POOLS}  # nobody changes it

    def answer_in(self, request: Mapping[str, Any], state: JobState) -> Mapping[str, Any]:
        kept = request_of(canonical(self.message, request))
        return custom_job(_record(custom_job_spec(*_IDENTITY, kept), kept, state))


class TuningJobProbe(VertexProbe):
    """The HyperparameterTuningJobs of Vertex AI."""

    message = "HyperparameterTuningJob"
    minimal = {  # nobody changes it
        "displayName": "search",
        "studySpec": {
            "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
            "parameters": [{"parameterId": "rate", "doubleValueSpec": {"minValue": 0.1, "maxValue": 1.0}}],
        },
        "maxTrialCount": 10,
        "parallelTrialCount": 2,
        "trialJobSpec": _POOLS,
    }

    def answer_in(self, request: Mapping[str, Any], state: JobState) -> Mapping[str, Any]:
        kept = tuning_request_of(canonical(self.message, request))
        record = _record(tuning_job_spec(*_IDENTITY, kept), kept, state)
        trials = [_trial(1, JobState.SUCCEEDED), _trial(2, JobState.FAILED)]
        return tuning_job(JobView(record=record, tuning=TuningOutput(metric_tag="accuracy", trials=trials)))


class PipelineProbe(VertexProbe):
    """The TrainingPipelines of Vertex AI."""

    message = "TrainingPipeline"
    minimal = {  # nobody changes it
        "displayName": "pipeline",
        "trainingTaskDefinition": CUSTOM_TASK,
        INPUTS: _POOLS,
    }

    def answer_in(self, request: Mapping[str, Any], state: JobState) -> Mapping[str, Any]:
        resource = canonical(self.message, request)
        check_task(resource)
        kept = pipeline_request_of(resource) | {INPUTS: read_inputs(resource[INPUTS])}
        project, location, job_id = _IDENTITY
        job_of_pipeline(*_IDENTITY, kept)
        return training_pipeline(
            PipelineRecord(
                project=project,
                location=location,
                pipeline_id=job_id,
                request=kept,
                job_id=job_id,
                model_id="",
                state=state,
                created_at=_WHEN,
                started_at=_WHEN,
                ended_at=_WHEN,
                updated_at=_WHEN,
                reason=_FAILED,
            )
        )


def _record(spec: JobSpec, request: Mapping[str, Any], state: JobState) -> JobRecord:
    return JobRecord(
        uid="uid",
        sequence=1,
        spec=spec,
        request=request,
        state=state,
        created_at=_WHEN,
        preparing_at=_WHEN,
        running_at=_WHEN,
        ended_at=_WHEN,
        reason=_FAILED,
    )


def _trial(number: int, state: JobState) -> TrialOutput:
    summary = TrialSummary(
        uid=f"{'0' * 31}{number}",
        study_uid="uid",
        number=number,
        hyperparameters={"rate": "0.5"},
        state=state,
        running_at=_WHEN,
        ended_at=_WHEN,
        stopped="",
        error_message="It failed.",
    )
    report = Report(tag="accuracy", value=0.9, step=1, reported_us=round(_WHEN.timestamp() * 1e6) + 1)
    return TrialOutput(trial=summary, final=report)
