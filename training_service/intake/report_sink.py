"""Reports of trainers, into the database: the storing half of the metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import sqlalchemy as sa

from training_api.job.tuning.metric_file import KNOWN_REPORTS
from training_service.intake.metric_stream import (
    KnownReports,
    PlacedReport,
    SinkUnavailable,
    StreamName,
)
from training_service.store.measurement_store import Measurement, MeasurementStore


class StoredReports:
    """
    A ``ReportSink`` over the database; safe for threads.

    :param note: writes a warning to the log of the job of a uid.
    """

    def __init__(self, store: MeasurementStore, note: Callable[[str, str], None]) -> None:
        self._store = store
        self._note = note

    def known(self, stream: StreamName) -> KnownReports:
        """Return what is stored of a stream. :raises SinkUnavailable: the database does not answer."""
        try:
            newest = self._store.newest(stream.job_uid, stream.source, KNOWN_REPORTS)
        except sa.exc.SQLAlchemyError as error:
            raise SinkUnavailable(str(error)) from error
        return KnownReports(
            newest=tuple(one.report for one in newest),
            next_sequence=newest[-1].sequence + 1 if newest else 0,
        )

    def store(self, new: Mapping[StreamName, Sequence[PlacedReport]]) -> Mapping[StreamName, int]:
        """
        Store reports in one transaction; return how many of each stream are stored.

        :raises SinkUnavailable: the database takes no write.
        """
        measurements = [
            Measurement(
                job_uid=stream.job_uid, source=stream.source, sequence=one.sequence, report=one.report
            )
            for stream, reports in new.items()
            for one in reports
        ]
        try:
            self._store.append(measurements)
        except sa.exc.SQLAlchemyError as error:
            raise SinkUnavailable(str(error)) from error
        return {stream: len(reports) for stream, reports in new.items()}

    def warn(self, stream: StreamName, message: str) -> None:
        """Write a warning to the log of the stream's job."""
        self._note(stream.job_uid, message)
