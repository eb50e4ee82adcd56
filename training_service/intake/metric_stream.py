"""
What the reading and the storing of metrics share: a stream of reports, and where it goes.

The reading half (``metric_reader.py``) runs beside the trainer: in the service's process on one machine, in
the agent of each machine on a swarm. The storing half is a ``ReportSink``: the database, or the service over
HTTP. A report has its place in its stream, so that storing it twice is storing it once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from training_api.job.tuning.measurement import Report

#: What one run of a replica may report; the rest is left out, so that no trainer fills the database.
MAX_REPORTS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class StreamName:
    """
    One run of a replica, as the source of reports.

    :param task_name: the replica: ``master-replica-0``.
    :param source: which run of it: ``0.0``.
    """

    job_uid: str
    task_name: str
    source: str

    @property
    def folder(self) -> str:
        """The stream's folder, below that of all streams."""
        return f"{self.job_uid}/{self.task_name}-{self.source}"

    @classmethod
    def of_folder(cls, job_uid: str, name: str) -> StreamName | None:
        """Return the stream whose folder of a job has this ``name``; ``None``: it is no stream's."""
        task_name, _, source = name.rpartition("-")
        return cls(job_uid=job_uid, task_name=task_name, source=source) if task_name and source else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedReport:
    """A report, and its 0-based place in its stream."""

    sequence: int
    report: Report


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownReports:
    """
    What is stored of a stream: reading resumes from there.

    :param newest: its last ``KNOWN_REPORTS`` reports, oldest first.
    :param next_sequence: the place of the next report.
    """

    newest: tuple[Report, ...] = ()
    next_sequence: int = 0


class SinkUnavailable(Exception):
    """For now, reports cannot be stored, or what is stored cannot be read: try again."""


class ReportSink(Protocol):
    """Where reports go. All methods may be repeated, and are safe for threads."""

    def known(self, stream: StreamName) -> KnownReports:
        """Return what is stored of a stream. :raises SinkUnavailable: ask again later."""

    def store(self, new: Mapping[StreamName, Sequence[PlacedReport]]) -> Mapping[StreamName, int]:
        """
        Store reports; those whose place is taken are skipped.

        :return: how many of each stream, from its first on, are stored for good.
        :raises SinkUnavailable: nobody knows how many.
        """

    def warn(self, stream: StreamName, message: str) -> None:
        """Write a warning to the log of the stream's job, soon."""


class StreamReading(Protocol):
    """What reads streams, on this machine or on many; safe for threads."""

    def start(self, job_uids: Iterable[str]) -> None:
        """Begin; remove folders of jobs other than ``job_uids``: of those that have ended."""

    def stop(self) -> None:
        """End the reading; another process resumes it."""

    def open(self, stream: StreamName, machine: str) -> str:
        """
        Make the folder of a run that is about to start on ``machine``; empty: the only one.

        :return: its absolute path on that machine.
        :raises EngineError: the folder cannot be made.
        """

    def follow(self, stream: StreamName, machine: str, *, has_ended: bool) -> None:
        """Make sure that the stream of a container is read; returns at once."""

    @property
    def drained(self) -> Collection[StreamName]:
        """Streams that have ended and are stored to the last report."""

    def remove(self, job_uid: str) -> None:
        """Remove a job's folders, once its containers are gone."""
