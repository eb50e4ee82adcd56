"""The use cases of the ops API: what those who watch the service ask. No HTTP words, no engine words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from training_api.errors import EngineError
from training_api.fleet.wire import (
    CurvesResponse,
    FleetResponse,
    Room,
    SearchJobsRequest,
    TimelineResponse,
    UsageResponse,
    VersionResponse,
)
from training_api.job.capacity import Capacity, Load, grants, load_of
from training_api.states import JobState
from training_service.model.records import JobRecord
from training_service.store.job_search import JobSearch
from training_service.store.job_store import JobStore
from training_service.store.span_store import SpanStore
from training_service.store.usage_store import UsageStore
from training_service.use_cases.curve_book import CurveBook


class Reports:
    """
    Reads everything, writes nothing; safe for threads.

    :param capacity: the room of the machines; raises ``EngineUnavailable`` while nobody knows it.
    """

    def __init__(
        self,
        *,
        jobs: JobStore,
        search: JobSearch,
        spans: SpanStore,
        usage: UsageStore,
        curves: CurveBook,
        capacity: Callable[[], Capacity],
    ) -> None:
        self._jobs = jobs
        self._search = search
        self._spans = spans
        self._usage = usage
        self._curves = curves
        self._capacity = capacity

    def search(self, project: str, request: SearchJobsRequest) -> dict[str, Any]:
        """Return one page of jobs as JSON. :raises InvalidFilter: the filter or the token cannot be read."""
        return self._search.search(project, request)

    def version(self, project: str) -> VersionResponse:
        """Return what changes with every change of a job."""
        return VersionResponse(version=self._search.version(project))

    def timeline(self, project: str, job_id: str) -> TimelineResponse:
        """Return what took the job's time. :raises JobNotFound: there is none."""
        return TimelineResponse(spans=self._spans.of_job(self._jobs.get(project, job_id).uid))

    def usage(self, project: str, job_id: str) -> UsageResponse:
        """Return what the job's replicas used, beside what they may use. :raises JobNotFound: there is none."""
        record = self._jobs.get(project, job_id)
        limits = self._limits(record)
        return UsageResponse(
            series=[
                series.model_copy(update=limits.get(series.replica, {}))
                for series in self._usage.of_job(record.uid)
            ]
        )

    def curves(self, project: str, job_id: str) -> CurvesResponse:
        """Return what the job, or its trials, reported. :raises JobNotFound: there is none."""
        return CurvesResponse(curves=self._curves.of_job(self._jobs.get(project, job_id).uid))

    def fleet(self, project: str = "") -> FleetResponse:
        """
        Return what the service has, what is in use, by whatever project, and how long ``project``'s queue is.

        :param project: empty: the queue of all.
        """
        count, oldest = self._search.oldest_queued(project)
        try:
            capacity = self._capacity()
        except EngineError:
            return FleetResponse(queue_length=count, oldest_queued_time=oldest)
        used = sum(
            (
                load_of(grants(job.spec.replicas, capacity))
                for job in self._jobs.list_active()
                if job.state is not JobState.QUEUED and not job.spec.study
            ),
            Load(),
        )
        total = capacity.total
        return FleetResponse(
            capacity=Room(
                cpus=total.cpus,
                memory_bytes=total.memory_bytes,
                gpus=total.gpus,
                replicas=capacity.replicas,
            ),
            largest=Room(
                cpus=capacity.each.cpus,
                memory_bytes=capacity.each.memory_bytes,
                gpus=capacity.each.gpus,
                replicas=1,
            ),
            used=Room(cpus=used.cpus, memory_bytes=used.memory_bytes, gpus=used.gpus, replicas=used.replicas),
            queue_length=count,
            oldest_queued_time=oldest,
        )

    def _limits(self, record: JobRecord) -> dict[str, dict[str, float | None]]:
        """Return by task name what the replicas may use, by the room of today; nothing while nobody knows that."""
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
