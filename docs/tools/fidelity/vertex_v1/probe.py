"""How this service reads and answers the resources of Vertex AI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from docs.tools.fidelity.probe import Probe, Refusal
from training_api.causes import Cause
from training_api.dialects.vertex_v1.reader import custom_job_spec, request_of
from training_api.errors import InvalidJobSpec, InvalidRequest
from training_api.states import JobState
from training_service.api.vertex_v1.canonical import canonical
from training_service.api.vertex_v1.writer import custom_job
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord

_WHEN = datetime(2026, 1, 31, 12, tzinfo=UTC)
_UNKNOWN = "Cannot find field."
_IDENTITY = ("project", "us-central1", "1234567890123456789")


class CustomJobProbe(Probe):
    """The CustomJobs of Vertex AI."""

    minimal = {  # nobody changes it
        "displayName": "job",
        "jobSpec": {
            "workerPoolSpecs": [
                {
                    "machineSpec": {"machineType": "n1-standard-4"},
                    "replicaCount": "1",
                    "containerSpec": {"imageUri": "registry.example/project/trainer:1"},
                }
            ]
        },
    }

    def is_readable(self, request: Mapping[str, Any]) -> bool:
        try:
            canonical("CustomJob", request)
        except InvalidRequest as error:
            # Not a field of a oneof beside another one of it.
            return not any(violation.description.endswith(_UNKNOWN) for violation in error.violations)
        return True

    def refusals(self, request: Mapping[str, Any]) -> Iterable[Refusal]:
        try:
            custom_job_spec(*_IDENTITY, request_of(canonical("CustomJob", request)))
        except (InvalidRequest, InvalidJobSpec) as error:
            return [(violation.field, violation.description) for violation in error.violations]
        return []

    def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return custom_job(_record(request, JobState.QUEUED))

    def answers(self) -> Iterator[Mapping[str, Any]]:
        for state in JobState:
            yield custom_job(_record(self.minimal, state))


def _record(request: Mapping[str, Any], state: JobState) -> JobRecord:
    kept = request_of(canonical("CustomJob", request))
    return JobRecord(
        uid="uid",
        sequence=1,
        spec=custom_job_spec(*_IDENTITY, kept),
        request=kept,
        state=state,
        created_at=_WHEN,
        preparing_at=_WHEN,
        running_at=_WHEN,
        ended_at=_WHEN,
        reason=Reason(cause=Cause.UNKNOWN, message="It failed."),
    )
