"""How this service reads and answers a job of AI Platform Training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from docs.tools.fidelity.probe import Probe, Refusal
from training_api.causes import Cause
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.errors import InvalidJobSpec
from training_api.states import JobState
from training_service.api.ml_v1.writer import job_of
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord
from training_service.use_cases.jobs import JobView

_WHEN = datetime(2026, 1, 31, 12, tzinfo=UTC)


class JobProbe(Probe):
    """The jobs of AI Platform Training."""

    minimal = {  # nobody changes it
        "jobId": "job",
        "trainingInput": {"masterConfig": {"imageUri": "registry.example/project/trainer:1"}},
    }

    def is_readable(self, request: Mapping[str, Any]) -> bool:
        try:
            Job.model_validate(request)
        except ValidationError:
            return False
        return True

    def refusals(self, request: Mapping[str, Any]) -> Iterable[Refusal]:
        try:
            job_spec_from_wire("project", Job.model_validate(request))
        except ValidationError as error:
            return [("", str(error.errors()[0]["msg"]))]
        except InvalidJobSpec as error:
            return [(violation.field, violation.description) for violation in error.violations]
        return []

    def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return job_of(JobView(record=_record(request, JobState.QUEUED))).to_wire()

    def answers(self) -> Iterator[Mapping[str, Any]]:
        for state in JobState:
            yield job_of(JobView(record=_record(self.minimal, state), position=1)).to_wire()


def _record(request: Mapping[str, Any], state: JobState) -> JobRecord:
    job = Job.model_validate(request)
    return JobRecord(
        uid="uid",
        sequence=1,
        spec=job_spec_from_wire("project", job),
        request=(job.training_input or TrainingInput()).to_wire(),
        state=state,
        created_at=_WHEN,
        preparing_at=_WHEN,
        running_at=_WHEN,
        ended_at=_WHEN,
        reason=Reason(cause=Cause.UNKNOWN, message="It failed."),
    )
