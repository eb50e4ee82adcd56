"""The methods of trainingPipelines, in canonical JSON: what every transport calls."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, ClassVar

from training_api.dialects.vertex_v1.filters import read_filter
from training_api.dialects.vertex_v1.names import job_name, new_id
from training_api.dialects.vertex_v1.pipelines.filters import OF_PIPELINES
from training_api.dialects.vertex_v1.pipelines.model_rules import trained
from training_api.dialects.vertex_v1.pipelines.reader import (
    INPUTS,
    MODEL,
    check_task,
    in_pipeline,
    job_of_pipeline,
    pipeline_request_of,
)
from training_api.errors import FieldViolation, InvalidJobSpec, InvalidRequest, JobNotFound, ResourceNotFound
from training_api.states import JobState
from training_service.access.control import AccessControl
from training_service.access.decision import Caller
from training_service.api.vertex_v1.canonical import canonical
from training_service.api.vertex_v1.job_rights import check_rights_of_job
from training_service.api.vertex_v1.operations import Operations
from training_service.api.vertex_v1.pipelines.pipeline_writer import TRAINING_PIPELINES, training_pipeline
from training_service.api.vertex_v1.read_mask import masked_page, read_mask
from training_service.model import paging
from training_service.model.pipelines import NewPipeline, PipelineRecord
from training_service.model.records import JobRecord
from training_service.store.pipelines.pipeline_store import PipelineStore
from training_service.use_cases.job_removal import JobStillActive
from training_service.use_cases.jobs import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, Jobs

MESSAGE = "TrainingPipeline"
_INPUTS_ROOT = "training_pipeline.training_task_inputs"


class TrainingPipelines:
    """
    The TrainingPipelines of all projects.

    Each is a job, a row that names it, and perhaps a model.

    :param jobs: those of this dialect.
    :param learn: told of each project that a pipeline is made in; its number leads to it from then on.
    :param tail: returns the end of what a job's failed replica wrote.
    :param random_number: what the ids of pipelines, jobs and models are made from.
    """

    message: ClassVar[str] = MESSAGE
    collection: ClassVar[str] = TRAINING_PIPELINES

    def __init__(
        self,
        jobs: Jobs,
        pipelines: PipelineStore,
        access: AccessControl,
        operations: Operations,
        learn: Callable[[str], None] = lambda project: None,
        tail: Callable[[JobRecord], str] = lambda record: "",
        random_number: Callable[[], int] = lambda: secrets.randbits(63),
    ) -> None:
        self._jobs = jobs
        self._pipelines = pipelines
        self._access = access
        self._operations = operations
        self._learn = learn
        self._tail = tail
        self._random_number = random_number

    def create(self, project: str, location: str, body: Any, caller: Caller) -> dict[str, Any]:
        """
        Validate a pipeline, queue its job, and return it; the service gives the ids of both.

        Both are written at once, so that a kill leaves both or none.

        :param body: the TrainingPipeline, in any form of its JSON.
        :raises BrokenRules: it cannot be read, or breaks rules.
        :raises AccessDenied: the caller may not act as the account of its job, or name a secret.
        """
        resource = canonical(MESSAGE, body, "training_pipeline")
        check_task(resource)
        request = pipeline_request_of(resource) | {INPUTS: read_inputs(resource[INPUTS])}
        spec, job_request = job_of_pipeline(project, location, self._new_id(), request)
        check_rights_of_job(self._access, caller, spec)
        pipeline = NewPipeline(
            pipeline_id=self._new_id(),
            request=request,
            model_id=self._new_id() if MODEL in request else "",
            model=trained(request[MODEL], request[INPUTS]) if MODEL in request else {},
        )
        try:
            self._jobs.create(spec, job_request, pipeline=pipeline)
        except InvalidJobSpec as error:
            raise InvalidJobSpec(in_pipeline(error.violations)) from error
        self._learn(project)
        return self.get(project, location, pipeline.pipeline_id)

    def list_page(
        self,
        project: str,
        location: str,
        *,
        filter_text: str = "",
        page_size: int = 0,
        page_token: str = "",
        mask: str = "",
    ) -> dict[str, Any]:
        """
        Return a page of the pipelines of a location, newest first.

        :raises InvalidFilter: the filter cannot be read.
        :raises InvalidRequest: the mask, the page token or the page size is invalid.
        """
        paths = read_mask(mask, MESSAGE)
        tree = read_filter(filter_text, OF_PIPELINES)
        size = paging.page_size(page_size, default=DEFAULT_PAGE_SIZE, maximum=MAX_PAGE_SIZE)
        records, token = self._pipelines.list_page(project, location, tree, size, page_token)
        return masked_page(self.collection, map(training_pipeline, records), paths, token)

    def get(self, project: str, location: str, pipeline_id: str) -> dict[str, Any]:
        """
        Return a pipeline, with the last lines of its failed replica.

        A list does not show them.

        :raises ResourceNotFound: there is none, or in another location.
        """
        found = self._found(project, location, pipeline_id)
        return training_pipeline(found, self._tail_of(found))

    def cancel(self, project: str, location: str, pipeline_id: str) -> dict[str, Any]:
        """
        Ask the job of a pipeline to end; a pipeline that has ended is left as it is.

        :raises ResourceNotFound: there is no such pipeline.
        """
        found = self._found(project, location, pipeline_id)
        if not found.state.is_terminal:
            self._jobs.cancel(project, found.job_id)
        return {}

    def delete(self, project: str, location: str, pipeline_id: str) -> dict[str, Any]:
        """
        Remove a pipeline that has ended, and return the operation, which is done.

        Its job and its model stay: Airflow's DeleteCustomTrainingJob deletes the job by itself.

        :raises ResourceNotFound: there is none.
        :raises JobStillActive: it has not ended.
        """
        found = self._found(project, location, pipeline_id)
        if not found.state.is_terminal:
            raise JobStillActive(
                f"training pipeline {pipeline_id} is {found.state.value}; cancel it, and delete it once it has ended"
            )
        self._pipelines.remove(project, pipeline_id)
        # Its operation is asked for by the number, and this may have been all that the project had.
        self._learn(project)
        return self._operations.done(project, location)

    def _found(self, project: str, location: str, pipeline_id: str) -> PipelineRecord:
        found = self._pipelines.get(project, pipeline_id)
        if found is None or found.location != location:
            name = job_name(project, location, TRAINING_PIPELINES, pipeline_id[:100])
            where = f"; it is in {found.location}" if found else ""
            raise ResourceNotFound(f"The TrainingPipeline does not exist: {name!r}{where}")
        return found

    def _tail_of(self, pipeline: PipelineRecord) -> str:
        """Return the last lines of a failed pipeline's job; they go with the job."""
        if pipeline.state is not JobState.FAILED:
            return ""
        try:
            return self._tail(self._jobs.record(pipeline.project, pipeline.job_id))
        except JobNotFound:
            return ""

    def _new_id(self) -> str:
        return new_id(self._random_number())


def read_inputs(inputs: Any) -> dict[str, Any]:
    """Return the inputs of a pipeline as the message that they stand for."""
    try:
        return canonical("CustomJobSpec", inputs, _INPUTS_ROOT)
    except InvalidRequest as error:
        raise InvalidRequest(
            [
                FieldViolation(
                    field=INPUTS if each.field == _INPUTS_ROOT else f"{INPUTS}.{each.field}",
                    description=each.description,
                )
                for each in error.violations
            ]
        ) from error
