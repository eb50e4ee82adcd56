"""A trial's event files in the object store: their list, and what was added to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from training_api.job.tuning.measurement import Report
from training_service.intake.cloud_storage import Objects, StoredFile

if TYPE_CHECKING:
    from training_service.intake.summary_events import EventReader

#: In the name of each file of events, with the time and the host behind it [code:
#: tensorflow/core/util/events_writer.cc].
_MARK = "tfevents"
#: What is read of one file in one go.
PIECE_BYTES = 16 << 20
#: Files of one trial; a run writes one a writer.
MAX_FILES = 200


def _event_reader() -> EventReader:
    # Protocol Buffers take ten megabytes, which only a service pays for that reads summaries.
    from training_service.intake.summary_events import EventReader

    return EventReader()


@dataclass(slots=True)
class _Progress:
    reader: EventReader = field(default_factory=_event_reader)
    generation: int = -1
    sequence: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryReport:
    """A scalar, the file that it stands in, and its 0-based place among the file's scalars."""

    source: str
    sequence: int
    report: Report


class SummaryFiles:
    """
    The event files below one folder; an event file only grows.

    :param job_dir: ``gs://BUCKET/FOLDER``.
    """

    def __init__(self, objects: Objects, job_dir: str) -> None:
        self._objects = objects
        self.bucket, _, folder = job_dir.removeprefix("gs://").partition("/")
        self._prefix = f"{folder.rstrip('/')}/" if folder else ""
        self._progress: dict[str, _Progress] = {}
        #: Files of which the rest cannot be read, with the reason; taken by the caller.
        self.broken: list[str] = []

    def look(self) -> Iterator[SummaryReport]:
        """
        Yield what has been added since the last look, one file after the other.

        :raises StorageUnavailable: what was yielded is not yielded again; a caller that lost it makes this
            object anew.
        """
        files = sorted(
            (file for file in self._objects.list(self.bucket, self._prefix) if _is_event_file(file.name)),
            key=lambda file: file.name,
        )
        for file in files[:MAX_FILES]:
            progress = self._progress.setdefault(file.name, _Progress())
            if file.generation != progress.generation and not progress.reader.damage:
                yield from self._read(file, progress)

    def _read(self, file: StoredFile, progress: _Progress) -> Iterator[SummaryReport]:
        reader = progress.reader
        while reader.size < file.size:
            piece = self._objects.read(self.bucket, file, reader.size, PIECE_BYTES)
            if not piece:
                return  # the next look finds the newer one
            for report in reader.feed(piece):
                yield SummaryReport(
                    source=file.name.removeprefix(self._prefix)[-_SOURCE_LENGTH:],
                    sequence=progress.sequence,
                    report=report,
                )
                progress.sequence += 1
            if reader.damage:
                self.broken.append(f"gs://{self.bucket}/{file.name}: {reader.damage}")
                break
        # Of all files of all jobs only the one that is read takes memory.
        reader.drop_unfinished()
        progress.generation = file.generation


#: Of the column.
_SOURCE_LENGTH = 512


def _is_event_file(name: str) -> bool:
    return _MARK in name.rpartition("/")[2]
