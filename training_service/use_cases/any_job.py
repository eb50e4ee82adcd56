"""The use cases of one job, whatever its dialect: to show it, and to end it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from training_api.errors import JobNotFound
from training_api.fleet.job_detail import PipelineView, PoolView, StudyView, TrialView
from training_api.job.dialect import Dialect, Resource, ResourceKind
from training_api.job.replica_spec import ReplicaSpec
from training_service.model.pipelines import PipelineRecord
from training_service.model.records import JobRecord
from training_service.model.tuning_output import TrialOutput
from training_service.store.jobs.job_search import JobSearch, is_tuning
from training_service.store.jobs.job_store import JobStore
from training_service.store.pipelines.pipeline_store import PipelineStore
from training_service.use_cases.jobs import Jobs

#: An id that no job can have may be of any length.
_SHOWN_CHARACTERS = 100


class AnyJob:
    """
    One job of any dialect; safe for threads.

    An id is that of the job, or of the pipeline that it was made for.

    :param spoken: the jobs of each dialect of this service.
    """

    def __init__(
        self, jobs: JobStore, search: JobSearch, pipelines: PipelineStore, spoken: Iterable[Jobs]
    ) -> None:
        self._jobs = jobs
        self._search = search
        self._pipelines = pipelines
        self._spoken: Mapping[str, Jobs] = {each.dialect.name: each for each in spoken}

    def detail(self, project: str, job_id: str) -> dict[str, Any]:
        """Return the JSON form of a :class:`JobDetail`. :raises JobNotFound: there is none."""
        record, jobs = self._found(project, job_id)
        row = self._search.row(record.uid)
        if row is None:
            raise _not_found(project, job_id)  # removed a moment ago
        spec, dialect = record.spec, jobs.dialect
        blamed = [
            each.replica
            for each in spec.replicas
            if str(each.replica) == row.get("reason", {}).get("replica")
        ]
        # A dialect without names of its own says "worker 1" in its messages.
        if blamed and dialect.task_name(blamed[0]) != blamed[0].task_name:
            row = {**row, "reason": {**row["reason"], "replica": dialect.task_name(blamed[0])}}
        kind = ResourceKind.TUNING_JOB if is_tuning(row) else ResourceKind.JOB
        tuning = jobs.view(record).tuning
        pipeline = self._pipelines.of_job(record.uid)
        told: dict[str, Any] = {
            "job": row,
            "name": dialect.resource_name(
                Resource(kind=kind, project=project, region=spec.region, id=spec.job_id)
            ),
            "region": spec.region,
            "pools": [pool.to_wire() for pool in _pools(spec.replicas, dialect)],
            "outputDir": spec.output_dir,
            "maxRunningSeconds": spec.max_running.total_seconds(),
            "request": dialect.as_asked(spec, record.request),
            "trials": [_trial(each).to_wire() for each in tuning.trials] if tuning else [],
        }
        if spec.max_wait is not None:
            told["maxWaitSeconds"] = spec.max_wait.total_seconds()
        if spec.study:
            told["study"] = StudyView.of(spec.study).to_wire()
        if pipeline:
            told["pipeline"] = _pipeline(pipeline, dialect).to_wire()
        return told

    def cancel(self, project: str, job_id: str) -> None:
        """
        Ask a job to end; do nothing if it is ending or has ended.

        :raises JobNotFound: there is none.
        """
        record, jobs = self._found(project, job_id)
        jobs.cancel(project, record.spec.job_id)

    def _found(self, project: str, job_id: str) -> tuple[JobRecord, Jobs]:
        try:
            record = self._jobs.get(project, job_id)
        except JobNotFound:
            pipeline = self._pipelines.get(project, job_id)
            if pipeline is None:
                raise _not_found(project, job_id) from None
            record = self._jobs.get(project, pipeline.job_id)
        jobs = self._spoken.get(record.spec.dialect)
        if jobs is None:
            raise JobNotFound(
                f"job {job_id!r} is of the dialect {record.spec.dialect!r}, which this service does not speak"
            )
        return record, jobs


def _not_found(project: str, job_id: str) -> JobNotFound:
    return JobNotFound(f"job {job_id[:_SHOWN_CHARACTERS]!r} not found in project {project!r}")


def _pools(replicas: Iterable[ReplicaSpec], dialect: Dialect) -> Iterable[PoolView]:
    for _, pool in groupby(replicas, lambda each: each.replica.role):
        first, *others = pool
        yield PoolView(
            name=dialect.task_name(first.replica).rpartition("-")[0].removesuffix("-replica"),
            count=1 + len(others),
            machine_type=first.machine.name,
            accelerator=first.gpu or "",
            accelerator_count=first.gpus,
            image=str(first.image),
            command=list(first.command),
            args=list(first.args),
        )


def _trial(output: TrialOutput) -> TrialView:
    trial, final = output.trial, output.final
    return TrialView(
        trial_id=str(trial.number),
        state=trial.state,
        is_stopped_early=bool(trial.stopped),
        parameters=dict(trial.hyperparameters),
        objective=final.value if final and math.isfinite(final.value) else None,
        step=final.step if final else None,
        start_time=trial.running_at,
        end_time=trial.ended_at,
        error=trial.error_message,
    )


def _pipeline(record: PipelineRecord, dialect: Dialect) -> PipelineView:
    named = Resource(
        kind=ResourceKind.PIPELINE, project=record.project, region=record.location, id=record.pipeline_id
    )
    return PipelineView(name=dialect.resource_name(named), display_name=dialect.display_name(record.request))
