"""
Fails the jobs that take more of a disk than they may.

A thread looks at what each running replica has written: to its container's root, to the folder of its
metrics, and as objects below its job directory. It writes why the job fails; the loop then stops the
containers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

import structlog

from container_engines.base import Engine, ObservedReplica
from container_engines.disk_use import DiskUse, FolderHidden, use_of_folders
from training_api.errors import EngineUnavailable
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.dialect import Dialects
from training_api.states import ReplicaState
from training_service.model.disk.disk_limit import METRICS_LIMIT, hidden, over_limit
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord

_TICK_SECONDS = 1.0
#: Between two looks at the same place.
_PAUSE_SECONDS = 15.0
#: A look that takes long comes again later ...
_PAUSE_SHARE = 20.0
#: ... but not so late that a disk could be filled meanwhile.
_LONGEST_PAUSE_SECONDS = 120.0
#: After each look the watch rests for ten times as long as it took: it takes a tenth of a core, however many
#: containers there are. But one with many files does not keep it from the others.
_REST_SHARE = 10.0
_LONGEST_REST_SECONDS = 1.0

logger = structlog.get_logger(__name__)


class ObjectUse(Protocol):
    """What is needed of an object store."""

    def below(self, directory: str, since: datetime) -> DiskUse | None:
        """Return what was written below ``gs://BUCKET/FOLDER`` since then; ``None``: unknown."""


@dataclass(slots=True)
class _Watched:
    record: JobRecord
    observed: ObservedReplica
    #: By the name of the look.
    due_at: dict[str, float] = field(default_factory=dict)


class DiskWatch:
    """
    Looks at the containers that the loop shows it; safe for threads.

    :param dialects: how jobs call their replicas.
    :param most: what one container's root, or one job directory, may have.
    :param metric_folders: has a folder a job, by its uid.
    :param objects: ``None``: nobody tells what lies in the object store.
    :param fail: writes that a job fails, unless its end is decided.
    :param clock: seconds, from any origin.
    """

    def __init__(
        self,
        engine: Engine,
        most: DiskUse,
        *,
        dialects: Dialects,
        metric_folders: Path,
        objects: ObjectUse | None,
        fail: Callable[[JobRecord, Reason], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._most = most
        self._dialects = dialects
        self._metric_folders = metric_folders
        self._objects = objects
        self._fail = fail
        self._clock = clock
        self._lock = threading.Lock()
        self._watched: dict[str, _Watched] = {}
        self._stopping = threading.Event()
        bounded = {"root": self._look_at_root, "objects": self._look_at_objects}
        self._looks: Mapping[str, Callable[[_Watched], Reason | None]] = {
            "metrics": self._look_at_metrics,
            **(bounded if most.bytes or most.files else {}),
        }

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="disk-watch", daemon=True).start()

    def stop(self) -> None:
        """End the watch after the look that is under way."""
        self._stopping.set()

    def follow(self, record: JobRecord, observed: ObservedReplica) -> None:
        """Watch the container from now on, while it runs and its job has no end."""
        name, runs = observed.container_id, observed.state is ReplicaState.RUNNING
        with self._lock:
            if not runs or record.is_ending:
                self._watched.pop(name, None)
            else:
                self._watched.setdefault(name, _Watched(record, observed)).record = record

    def forget(self, present: set[str]) -> None:
        """Drop containers that are no longer ``present``."""
        with self._lock:
            self._watched = {name: one for name, one in self._watched.items() if name in present}

    def look(self) -> None:
        """Take the looks that are due; one that fails leaves the others alone."""
        with self._lock:
            watched = list(self._watched.values())
        for one in watched:
            for name, look in self._looks.items():
                if self._stopping.is_set():
                    return
                if one.due_at.get(name, 0.0) <= self._clock():
                    self._take(one, name, look)

    def _take(self, one: _Watched, name: str, look: Callable[[_Watched], Reason | None]) -> None:
        began = self._clock()
        try:
            if reason := look(one):
                logger.warning("job takes too much disk", job_uid=one.record.uid, reason=reason.message)
                self._fail(one.record, reason)
        except EngineUnavailable:
            pass  # the loop reports it
        except Exception as error:
            # The thread serves all jobs: the object store, the database or the engine may refuse.
            logger.warning("disk not looked at", look=name, job_uid=one.record.uid, reason=repr(error))
        now = self._clock()
        pause = max(_PAUSE_SECONDS, _PAUSE_SHARE * (now - began))
        one.due_at[name] = now + min(pause, _LONGEST_PAUSE_SECONDS)
        self._stopping.wait(min(_REST_SHARE * (now - began), _LONGEST_REST_SECONDS))

    def _look_at_root(self, one: _Watched) -> Reason | None:
        use = self._engine.read_disk(one.observed.container_id, self._most)
        return over_limit(*self._who(one), "its container's root", use, self._most)

    def _look_at_metrics(self, one: _Watched) -> Reason | None:
        folder = self._metric_folders / one.record.uid
        if one.observed.replica.role is not ReplicaRole.MASTER or not folder.exists():
            return None
        where = "its folder for metrics, where only cloudml-hypertune should write"
        try:
            use = use_of_folders([folder], METRICS_LIMIT)
        except FolderHidden:
            return hidden(*self._who(one), where)
        return over_limit(*self._who(one), where, use, METRICS_LIMIT)

    def _look_at_objects(self, one: _Watched) -> Reason | None:
        directory = one.record.spec.output_dir
        if one.observed.replica.role is not ReplicaRole.MASTER or not directory or self._objects is None:
            return None
        # What an earlier job has left there is not this one's.
        use = self._objects.below(directory, one.record.created_at)
        return over_limit(*self._who(one), f"its job directory {directory}", use, self._most)

    def _who(self, one: _Watched) -> tuple[ReplicaId, str]:
        """Return the replica, and what its job's messages call it."""
        replica = one.observed.replica
        return replica, self._dialects[one.record.spec.dialect].replica_name(replica)

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_SECONDS):
            self.look()
