"""The methods of hyperparameterTuningJobs, in canonical JSON: what every transport calls."""

from __future__ import annotations

from typing import Any

from training_api.dialects.vertex_v1.tuning.reader import of_trials, tuning_job_spec, tuning_request_of
from training_api.errors import InvalidJobSpec
from training_api.job.job_spec import JobSpec
from training_service.api.vertex_v1.canonical import canonical
from training_service.api.vertex_v1.job_methods import JobMethods
from training_service.api.vertex_v1.tuning_writer import TUNING_JOBS, tuning_job
from training_service.use_cases.jobs import JobView

MESSAGE = "HyperparameterTuningJob"


class HyperparameterTuningJobs(JobMethods):
    """The HyperparameterTuningJobs of all projects."""

    message, collection, tunes = MESSAGE, TUNING_JOBS, True

    def _read(self, project: str, location: str, job_id: str, body: Any) -> tuple[JobSpec, dict[str, Any]]:
        request = tuning_request_of(canonical(MESSAGE, body, "hyperparameter_tuning_job"))
        return tuning_job_spec(project, location, job_id, request), request

    def _queued(self, spec: JobSpec, request: dict[str, Any]) -> JobView:
        try:
            return super()._queued(spec, request)
        except InvalidJobSpec as error:  # found by the service, in the words of a CustomJob
            raise InvalidJobSpec(of_trials(error.violations)) from error

    def _shown(self, view: JobView, tail: str = "") -> dict[str, Any]:
        del tail  # each trial has its own
        return tuning_job(view)
