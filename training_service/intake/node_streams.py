"""
The streams of many machines, as the service sees them.

It says what each machine's agent is to read. All of it is in memory. A service that has just started learns
from the engine which containers there are (``follow``), and from the agents what they have; what is not
stored lies on the machines meanwhile.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from container_engines.base import StillStarting
from training_api.errors import EngineUnavailable
from training_service.intake.metric_stream import (
    MAX_REPORTS,
    KnownReports,
    PlacedReport,
    ReportSink,
    StreamName,
)

#: How long a start waits for the agent; then the caller asks again.
_OPEN_SECONDS = 3.0
#: An agent asks every two seconds. One that has not for so long is away.
_SILENT_SECONDS = 20.0
#: How long the end of a job waits for an agent that is away.
_PATIENCE_SECONDS = 120.0


@dataclass(slots=True)
class _Place:
    """
    Where a stream is.

    :param since: when it was placed there, or its end was seen.
    """

    machine: str
    since: float
    is_opened: bool = False
    has_ended: bool = False
    is_drained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """
    What an agent is to do.

    :param version: changes whenever ``streams`` does.
    :param streams: those that it is to read, and whether they have ended.
    :param remove: uids of jobs whose folders go.
    """

    version: str
    streams: Mapping[StreamName, bool]
    remove: Collection[str]


class NodeStreams:
    """
    A ``StreamReading`` by agents; safe for threads.

    :param folder: the folder on each machine that has the streams, see ``folder_on``.
    :param sink: stores what agents post.
    :param active_uids: returns which of these jobs have not ended.
    :param on_drained: called when a stream's last report is stored.
    :param clock: seconds, from any origin.
    """

    def __init__(
        self,
        folder: Callable[[str], str],
        sink: ReportSink,
        active_uids: Callable[[Collection[str]], Collection[str]],
        on_drained: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        *,
        open_seconds: float = _OPEN_SECONDS,
    ) -> None:
        self._folder = folder
        self._sink = sink
        self._active_uids = active_uids
        self._on_drained = on_drained
        self._clock = clock
        self._open_seconds = open_seconds
        self._changed = threading.Condition()
        self._places: dict[StreamName, _Place] = {}
        self._heard_at: dict[str, float] = {}
        #: An agent must not take this process's version for an earlier one's.
        self._boot = secrets.token_hex(4)
        self._changes: dict[str, int] = {}
        self._started_at = clock()

    def start(self, job_uids: Iterable[str]) -> None:
        """Begin. Agents remove the folders of ended jobs when they ask."""
        self._started_at = self._clock()

    def stop(self) -> None:
        """End: agents keep what they read until the next service takes it."""
        with self._changed:
            self._changed.notify_all()

    def open(self, stream: StreamName, machine: str) -> str:
        """
        Have the agent of ``machine`` make the stream's folder.

        :return: absolute path of what the container is to see as ``METRIC_FOLDER``.
        :raises StillStarting: the agent has not made it yet.
        :raises EngineUnavailable: the agent is away.
        """
        with self._changed:
            place = self._place(stream, machine)
            if not self._changed.wait_for(lambda: place.is_opened, self._open_seconds):
                if self._is_away(machine, since=place.since):
                    raise EngineUnavailable(
                        f"the node agent of machine {machine} does not answer, so that the metrics of a replica cannot be read "
                        "there: `docker service ps` of the service ct-agent-... says why"
                    )
                raise StillStarting(f"the node agent of machine {machine} has not made the metric folder yet")
        return f"{self._folder(machine)}/{stream.folder}/mount"

    def follow(self, stream: StreamName, machine: str, *, has_ended: bool) -> None:
        """Have the agent of the container's machine read its stream; returns at once."""
        if not machine:
            return  # it waits for a machine
        with self._changed:
            place = self._place(stream, machine)
            if not has_ended or place.is_drained:
                return
            if not place.has_ended:
                place.has_ended, place.since = True, self._clock()
                self._count(machine)
            given_up = self._clock() - place.since > _PATIENCE_SECONDS and self._is_away(machine)
            place.is_drained = given_up
        if given_up:
            self._sink.warn(
                stream,
                f"The last reports of metrics may be missing: the node agent of machine {machine} has not answered for "
                f"{_PATIENCE_SECONDS:.0f} seconds.",
            )

    @property
    def drained(self) -> frozenset[StreamName]:
        """Streams that have ended and are stored to the last report, or given up."""
        with self._changed:
            return frozenset(stream for stream, place in self._places.items() if place.is_drained)

    def remove(self, job_uid: str) -> None:
        """Forget a job's streams; the agents remove its folders once it has ended."""
        with self._changed:
            for stream in [stream for stream in self._places if stream.job_uid == job_uid]:
                self._count(self._places.pop(stream).machine)

    def hear(self, machine: str, opened: Iterable[StreamName], drained: Iterable[StreamName]) -> None:
        """Take what an agent says that it has."""
        any_drained = False
        with self._changed:
            self._heard_at[machine] = self._clock()
            for stream in opened:
                if place := self._placed_on(stream, machine):
                    place.is_opened = True
            for stream in drained:
                place = self._placed_on(stream, machine)
                if place and place.has_ended and not place.is_drained:
                    place.is_drained = any_drained = True
                    self._count(machine)
            self._changed.notify_all()
        if any_drained:
            self._on_drained()

    def version(self, machine: str) -> str:
        """Return what changes whenever the machine's streams do."""
        return f"{self._boot}.{self._changes.get(machine, 0)}"

    def orders(self, machine: str, job_uids: Collection[str]) -> Orders:
        """Return what an agent is to do that has folders of ``job_uids``."""
        active = set(self._active_uids(job_uids)) if job_uids else set()
        with self._changed:
            streams = {
                stream: place.has_ended
                for stream, place in self._places.items()
                if place.machine == machine and not place.is_drained
            }
            placed = {stream.job_uid for stream in self._places}
            remove = [uid for uid in job_uids if uid not in active and uid not in placed]
            return Orders(version=self.version(machine), streams=streams, remove=remove)

    def known(self, machine: str, stream: StreamName) -> KnownReports | None:
        """Return what is stored of a stream; ``None``: the machine is not to read it now."""
        with self._changed:
            if not self._placed_on(stream, machine):
                return None
        return self._sink.known(stream)

    def store(
        self, machine: str, new: Mapping[StreamName, Sequence[PlacedReport]]
    ) -> Mapping[StreamName, int]:
        """
        Store the reports of streams that the machine is to read now; return how many of each.

        :raises SinkUnavailable: they could not be stored.
        """
        with self._changed:
            accepted = {
                stream: [one for one in reports if one.sequence < MAX_REPORTS]
                for stream, reports in new.items()
                if self._placed_on(stream, machine)
            }
        stored = self._sink.store(accepted) if accepted else {}
        return {stream: len(reports) if stream in stored else 0 for stream, reports in new.items()}

    def warn(self, machine: str, stream: StreamName, message: str) -> None:
        """Write an agent's warning to the log of a job that its machine runs."""
        with self._changed:
            is_placed = self._placed_on(stream, machine) is not None
        if is_placed:
            self._sink.warn(stream, message)

    def _place(self, stream: StreamName, machine: str) -> _Place:
        place = self._places.get(stream)
        if place is None or place.machine != machine:
            if place:
                self._count(place.machine)
            place = self._places[stream] = _Place(machine, self._clock())
            self._count(machine)
        return place

    def _placed_on(self, stream: StreamName, machine: str) -> _Place | None:
        place = self._places.get(stream)
        return place if place and place.machine == machine else None

    def _is_away(self, machine: str, since: float | None = None) -> bool:
        """Whether an agent has not asked for long, counted from ``since`` and this service's start."""
        last = max(self._heard_at.get(machine, self._started_at), since or 0.0)
        return self._clock() - last > _SILENT_SECONDS

    def _count(self, machine: str) -> None:
        self._changes[machine] = self._changes.get(machine, 0) + 1
