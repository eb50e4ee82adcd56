"""The use cases of the ops API, for watching the service. No HTTP or engine words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from training_api.errors import EngineError, JobNotFound
from training_api.fleet.history import FleetHistory, FleetHistoryRequest
from training_api.fleet.wire import (
    CurvesResponse,
    FleetResponse,
    MeasurementsRequest,
    MeasurementsResponse,
    Room,
    SearchJobsRequest,
    TimelineResponse,
    UsageResponse,
    VersionResponse,
)
from training_api.job.capacity import Capacity, Granted, Load, grants, load_of
from training_api.job.dialect import Dialects
from training_api.job.machines import Resources
from training_api.states import JobState
from training_service.model.records import JobRecord
from training_service.store.jobs.job_search import JobSearch
from training_service.store.jobs.job_store import JobStore
from training_service.store.measurement_store import MeasurementStore
from training_service.store.span_store import SpanStore
from training_service.store.usage_store import UsageStore
from training_service.use_cases.curve_book import CurveBook
from training_service.use_cases.history_book import HistoryBook


class Reports:
    """
    Reads everything, writes nothing; safe for threads.

    :param dialects: which name the replicas of their jobs.
    :param capacity: the machines' capacity; raises ``EngineUnavailable`` while it is unknown.
    :param hold: why no job is admitted; empty: jobs are admitted.
    """

    def __init__(
        self,
        *,
        jobs: JobStore,
        search: JobSearch,
        spans: SpanStore,
        usage: UsageStore,
        curves: CurveBook,
        histories: HistoryBook,
        measurements: MeasurementStore,
        dialects: Dialects,
        capacity: Callable[[], Capacity],
        hold: Callable[[], str] = lambda: "",
    ) -> None:
        self._jobs = jobs
        self._search = search
        self._spans = spans
        self._usage = usage
        self._curves = curves
        self._histories = histories
        self._measurements = measurements
        self._dialects = dialects
        self._capacity = capacity
        self._hold = hold

    def search(self, project: str, request: SearchJobsRequest) -> dict[str, Any]:
        """Return a page of jobs as JSON. :raises InvalidFilter: filter or token cannot be read."""
        return self._search.search(project, request)

    def version(self, project: str) -> VersionResponse:
        """Return what changes with every change of a job."""
        return VersionResponse(version=self._search.version(project))

    def timeline(self, project: str, job_id: str) -> TimelineResponse:
        """Return what took the job's time. :raises JobNotFound: there is none."""
        record = self._jobs.get(project, job_id)
        names = self._names(record)
        spans = self._spans.of_job(record.uid)
        return TimelineResponse(
            spans=[span.model_copy(update={"name": names.get(span.name, span.name)}) for span in spans]
        )

    def usage(self, project: str, job_id: str) -> UsageResponse:
        """Return what the job's replicas used, and their limits. :raises JobNotFound: no such job."""
        record = self._jobs.get(project, job_id)
        limits, names = self._limits(record), self._names(record)
        return UsageResponse(
            series=[
                series.model_copy(
                    update={
                        **limits.get(series.replica, {}),
                        "replica": names.get(series.replica, series.replica),
                    }
                )
                for series in self._usage.of_job(record.uid)
            ]
        )

    def curves(self, project: str, job_id: str) -> CurvesResponse:
        """Return what the job, or its trials, reported. :raises JobNotFound: there is none."""
        return CurvesResponse(curves=self._curves.of_job(self._jobs.get(project, job_id).uid))

    def measurements(self, project: str, job_id: str, asked: MeasurementsRequest) -> MeasurementsResponse:
        """Return a page of a job's, or a trial's, reports. :raises JobNotFound: there is none."""
        job = self._jobs.get(project, job_id)
        trials = {trial_id: uid for uid, trial_id in self._measurements.reporters(job.uid).items()}
        if asked.trial_id not in trials:
            raise JobNotFound(f"job {job_id!r} has no trial {asked.trial_id!r}")
        tag = asked.tag or (job.spec.study.metric_tag if job.spec.study else "")
        known = int(asked.page_token or 0)
        page = self._measurements.newer(trials[asked.trial_id], tag, known, asked.page_size + 1)
        shown = page[: asked.page_size]
        values = [each.report.value for each in shown]
        return MeasurementsResponse(
            steps=[each.report.step for each in shown],
            values=[value if math.isfinite(value) else None for value in values],
            times=[each.report.reported_us / 1e6 for each in shown],
            next_page_token=str(shown[-1].id) if len(page) > len(shown) else "",
        )

    def fleet(self, project: str = "") -> FleetResponse:
        """
        Return the service's capacity, its use by all projects, and the queue of ``project``.

        :param project: empty: the queue of all projects.
        """
        count, oldest = self._search.oldest_queued(project)
        hold = self._hold()
        try:
            capacity = self._capacity()
        except EngineError:
            return FleetResponse(queue_length=count, oldest_queued_time=oldest, hold=hold)
        granted = Granted(capacity)
        used = sum(
            (
                load_of(granted.of(job.spec.replicas))
                for job in self._jobs.list_active()
                if job.state is not JobState.QUEUED and not job.spec.study
            ),
            Load(),
        )
        return FleetResponse(
            capacity=_room(capacity.total, capacity.replicas),
            largest=_room(capacity.each, 1),
            used=_room(used, used.replicas),
            queue_length=count,
            oldest_queued_time=oldest,
            hold=hold,
        )

    def history(self, project: str, request: FleetHistoryRequest) -> FleetHistory:
        """Return what a window of time had of the project's jobs."""
        return self._histories.of(project, request)

    def _names(self, record: JobRecord) -> dict[str, str]:
        """Return what the job's log calls its replicas, by what the engine calls them."""
        dialect = self._dialects.get(record.spec.dialect)
        replicas = [each.replica for each in record.spec.replicas]
        return {each.task_name: dialect.task_name(each) for each in replicas} if dialect else {}

    def _limits(self, record: JobRecord) -> dict[str, dict[str, float | None]]:
        """Return the replicas' limits by task name, by today's capacity; empty while it is unknown."""
        try:
            granted = grants(record.spec.replicas, self._capacity())
        except EngineError:
            return {}
        return {
            spec.replica.task_name: {
                "cpu_limit": each.cpus,
                "memory_limit_bytes": each.memory_bytes,
                "gpu_limit": each.gpus or None,
            }
            for spec, each in zip(record.spec.replicas, granted, strict=True)
        }


def _room(of: Resources | Load, replicas: int) -> Room:
    return Room(cpus=of.cpus, memory_bytes=of.memory_bytes, gpus=of.gpus, replicas=replicas)
