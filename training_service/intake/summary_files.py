"""A trial's event files in the object store: their list, and what was added to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from training_api.job.tuning.measurement import Report

if TYPE_CHECKING:
    from training_service.intake.summary_events import EventReader

#: In the name of each file of events, with the time and the host behind it [code:
#: tensorflow/core/util/events_writer.cc].
_MARK = "tfevents"
#: What is read of one file in one go.
PIECE_BYTES = 16 << 20
#: Files of one trial; a run writes one a writer.
MAX_FILES = 200
_TIMEOUT_SECONDS = 10.0
#: The address of Cloud Storage itself, which wants credentials; any other is an emulator, which does not.
CLOUD_STORAGE = "https://storage.googleapis.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One object: its name, and its generation, which changes with each write."""

    name: str
    generation: int
    size: int


class Objects(Protocol):
    """What is needed of an object store. All raise ``StorageUnavailable``."""

    def list(self, bucket: str, prefix: str) -> Iterator[StoredFile]:
        """Return the objects whose names begin with ``prefix``; none of a missing bucket."""

    def read(self, bucket: str, file: StoredFile, start: int, size: int) -> bytes | None:
        """Return up to ``size`` bytes from ``start`` on; ``None``: it was rewritten, or is gone."""


class StorageUnavailable(Exception):
    """The object store does not answer, or refuses."""


class CloudStorage:
    """
    Cloud Storage, or an emulator of it.

    :param endpoint: ``CLOUD_STORAGE``, with the machine's own credentials, or an emulator's URL.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._made: Any = None

    def list(self, bucket: str, prefix: str) -> Iterator[StoredFile]:
        """Return the objects whose names begin with ``prefix``; none of a missing bucket."""
        from google.api_core.exceptions import GoogleAPIError, NotFound
        from google.auth.exceptions import GoogleAuthError
        from requests import RequestException

        try:
            for blob in self._client().list_blobs(
                bucket, prefix=prefix, timeout=_TIMEOUT_SECONDS, retry=None
            ):
                yield StoredFile(name=blob.name, generation=blob.generation or 0, size=blob.size or 0)
        except NotFound:
            return
        except (GoogleAPIError, GoogleAuthError, RequestException) as error:
            raise StorageUnavailable(str(error)) from error

    def read(self, bucket: str, file: StoredFile, start: int, size: int) -> bytes | None:
        """Return up to ``size`` bytes from ``start`` on; ``None``: it was rewritten, or is gone."""
        from google.api_core.exceptions import GoogleAPIError, NotFound, PreconditionFailed
        from google.auth.exceptions import GoogleAuthError
        from requests import RequestException

        # Not the listed blob: it downloads from its mediaLink, which an emulator fills with a name for
        # containers.
        blob = self._client().bucket(bucket).blob(file.name)
        try:
            content: bytes = blob.download_as_bytes(
                start=start,
                end=start + size - 1,
                if_generation_match=file.generation or None,
                timeout=_TIMEOUT_SECONDS,
                retry=None,
                checksum=None,
            )
        except (NotFound, PreconditionFailed):
            return None
        except (GoogleAPIError, GoogleAuthError, RequestException) as error:
            raise StorageUnavailable(str(error)) from error
        return content

    def _client(self) -> Any:
        # Made when first needed: the import costs a second, and most services run no tuning job.
        if self._made is None:
            from google.auth.credentials import AnonymousCredentials
            from google.cloud import storage

            if self._endpoint == CLOUD_STORAGE:
                self._made = storage.Client()
            else:
                self._made = storage.Client(
                    project="none",
                    credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
                    client_options={"api_endpoint": self._endpoint},
                )
        return self._made


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
        self._bucket, _, folder = job_dir.removeprefix("gs://").partition("/")
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
            (file for file in self._objects.list(self._bucket, self._prefix) if _is_event_file(file.name)),
            key=lambda file: file.name,
        )
        for file in files[:MAX_FILES]:
            progress = self._progress.setdefault(file.name, _Progress())
            if file.generation != progress.generation and not progress.reader.damage:
                yield from self._read(file, progress)

    def _read(self, file: StoredFile, progress: _Progress) -> Iterator[SummaryReport]:
        reader = progress.reader
        while reader.size < file.size:
            piece = self._objects.read(self._bucket, file, reader.size, PIECE_BYTES)
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
                self.broken.append(f"gs://{self._bucket}/{file.name}: {reader.damage}")
                break
        # Of all files of all jobs only the one that is read takes memory.
        reader.drop_unfinished()
        progress.generation = file.generation


#: Of the column.
_SOURCE_LENGTH = 512


def _is_event_file(name: str) -> bool:
    return _MARK in name.rpartition("/")[2]
