"""Streams and reports as the agents' protocol has them. Pure."""

from __future__ import annotations

from training_api.job.tuning.measurement import Report
from training_service.intake.metric_stream import PlacedReport, StreamName
from training_service.model.agent_wire import ReportRow, StreamRef


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
