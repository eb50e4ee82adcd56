"""Streams, reports and facts of containers as the agents' protocol has them. Pure."""

from __future__ import annotations

from container_engines.base import Usage
from container_engines.swarm.facts import MachineFacts
from training_api.job.tuning.measurement import Report
from training_service.agent.wire import (
    ContainerDisk,
    ContainerEnd,
    ContainerUse,
    ReportRow,
    StreamRef,
    SyncRequest,
)
from training_service.intake.metric_stream import PlacedReport, StreamName


def ref_of(stream: StreamName) -> StreamRef:
    """Return a stream's name on the wire."""
    return StreamRef(job_uid=stream.job_uid, task_name=stream.task_name, source=stream.source)


def stream_of(ref: StreamRef) -> StreamName:
    """Return the stream that ``ref`` names."""
    return StreamName(job_uid=ref.job_uid, task_name=ref.task_name, source=ref.source)


def row_of(placed: PlacedReport) -> ReportRow:
    """Return a report on the wire."""
    report = placed.report
    return ReportRow(
        n=placed.sequence, tag=report.tag, step=report.step, value=report.value, us=report.reported_us
    )


def placed_of(row: ReportRow) -> PlacedReport:
    """Return a report from the wire. :raises ValueError: it is none."""
    report = Report(tag=row.tag, step=row.step, value=row.value, reported_us=row.us)
    return PlacedReport(sequence=row.n, report=report)


def ends_of(facts: MachineFacts) -> list[ContainerEnd]:
    """Return how containers ended, on the wire."""
    return [
        ContainerEnd(container_id=name, out_of_memory=value) for name, value in facts.out_of_memory.items()
    ]


def uses_of(facts: MachineFacts) -> list[ContainerUse]:
    """Return what containers use, on the wire."""
    return [
        ContainerUse(
            container_id=name,
            cpu_seconds=usage.cpu_seconds,
            memory_bytes=usage.memory_bytes,
            age_seconds=usage.age_seconds,
            gpus=usage.gpus,
            gpu_memory_bytes=usage.gpu_memory_bytes,
        )
        for name, usage in facts.usage.items()
    ]


def disks_of(facts: MachineFacts) -> list[ContainerDisk]:
    """Return what containers have written, on the wire."""
    return [ContainerDisk(container_id=name, bytes=size) for name, size in facts.disk.items()]


def facts_of(asked: SyncRequest) -> MachineFacts:
    """Return the facts of a machine from the wire."""
    return MachineFacts(
        egress=asked.egress,
        disk={one.container_id: one.bytes for one in asked.disks},
        out_of_memory={one.container_id: one.out_of_memory for one in asked.ends},
        usage={
            one.container_id: Usage(
                cpu_seconds=one.cpu_seconds,
                memory_bytes=one.memory_bytes,
                age_seconds=one.age_seconds,
                gpus=one.gpus,
                gpu_memory_bytes=one.gpu_memory_bytes,
            )
            for one in asked.uses
        },
    )
