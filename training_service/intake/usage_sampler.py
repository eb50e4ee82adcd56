"""
What running replicas use, sampled.

A thread asks the engine for each running container: every two seconds at first, then less often the older the
container is, so that a job of a week leaves some thousand samples of each replica, not three hundred
thousand.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
import structlog

from container_engines.base import Engine, ObservedReplica, Usage
from training_api.errors import EngineError
from training_api.states import ReplicaState
from training_service.model.records import JobRecord
from training_service.store.usage_store import UsageSample, UsageStore

FIRST_PAUSE_SECONDS = 2.0
#: The pause grows with the container's age: age / 250. An hour gives 750 samples, a week 2,000.
_SAMPLES_PER_AGE = 250
_TICK_SECONDS = 0.5

logger = structlog.get_logger(__name__)


def pause_seconds(age_seconds: float) -> float:
    """Return how long after a sample the next one of a container of that age is due. Pure."""
    return max(FIRST_PAUSE_SECONDS, age_seconds / _SAMPLES_PER_AGE)


@dataclass(slots=True)
class _Watched:
    job_uid: str
    task_name: str
    started_at: datetime
    due_at: float = 0.0
    last: Usage | None = None
    last_at: float = 0.0


class UsageSampler:
    """Samples the containers that the loop shows it; safe for threads."""

    def __init__(self, engine: Engine, store: UsageStore) -> None:
        self._engine = engine
        self._store = store
        self._lock = threading.Lock()
        self._watched: dict[str, _Watched] = {}
        self._stopping = threading.Event()

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="usage", daemon=True).start()

    def stop(self) -> None:
        """End the sampling."""
        self._stopping.set()

    def follow(self, record: JobRecord, observed: ObservedReplica) -> None:
        """Sample the container from now on, if it runs."""
        with self._lock:
            if observed.state is not ReplicaState.RUNNING or observed.started_at is None:
                self._watched.pop(observed.container_id, None)
            elif observed.container_id not in self._watched:
                self._watched[observed.container_id] = _Watched(
                    record.uid, observed.replica.task_name, observed.started_at
                )

    def forget(self, present: set[str]) -> None:
        """Drop containers that are no longer ``present``."""
        with self._lock:
            self._watched = {name: one for name, one in self._watched.items() if name in present}

    def sample(self) -> None:
        """Take and store the samples that are due. :raises EngineError: the engine does not answer."""
        now = time.monotonic()
        with self._lock:
            due = [(name, one) for name, one in self._watched.items() if one.due_at <= now]
        self._store.append(list(self._samples(due)))

    def _samples(self, due: list[tuple[str, _Watched]]) -> Iterator[UsageSample]:
        for container_id, one in due:
            usage = self._engine.read_usage(container_id)
            at, moment = time.monotonic(), datetime.now(UTC)
            age = (moment - one.started_at).total_seconds()
            one.due_at = at + pause_seconds(age)
            if usage is None:
                continue
            # The first look knows the average since the start.
            seconds = at - one.last_at if one.last else max(age, 1e-3)
            used = usage.cpu_seconds - (one.last.cpu_seconds if one.last else 0.0)
            one.last, one.last_at = usage, at
            yield UsageSample(
                job_uid=one.job_uid,
                task_name=one.task_name,
                sampled_at=moment,
                cpu_cores=max(used, 0.0) / max(seconds, 1e-3),
                memory_bytes=usage.memory_bytes,
                gpus=usage.gpus,
                gpu_memory_bytes=usage.gpu_memory_bytes,
            )

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_SECONDS):
            try:
                self.sample()
            except (EngineError, sa.exc.SQLAlchemyError) as error:
                # Samples are missed while the engine is away, and the loop reports that; nothing depends on
                # them.
                logger.debug("usage not sampled", reason=str(error))
            except Exception:
                # The thread serves all jobs and must outlive a bug with one of them; the trace is in the log.
                logger.exception("sampling failed")
