"""
What running replicas use, sampled.

A thread asks the engine for each running container: every two seconds at first, then less often the older the
container is, so that a job of a week leaves some thousand samples of each replica, not three hundred
thousand.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
import structlog

from container_engines.base import Engine, ObservedReplica, Usage
from training_api.states import ReplicaState
from training_service.model.records import JobRecord
from training_service.store.usage_store import UsageSample, UsageStore

FIRST_PAUSE_SECONDS = 2.0
#: The pause grows with the container's age: age / 250. An hour gives 750 samples, a week 2,000.
_SAMPLES_PER_AGE = 250
_TICK_SECONDS = 0.5
#: Two samples that are closer are one: a difference of so short a time says nothing.
_LEAST_SECONDS = 0.1
#: The longest pause after a container that could not be sampled; each may take the engine's whole time limit.
_LONGEST_PAUSE_SECONDS = 60.0

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
    failures: int = 0
    last: Usage | None = None
    last_at: float = 0.0


class UsageSampler:
    """
    Samples the containers that the loop shows it; safe for threads.

    :param clock: seconds, from any origin.
    """

    def __init__(
        self, engine: Engine, store: UsageStore, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
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
        """Take and store the samples that are due; one that fails leaves the others alone."""
        now = self._clock()
        with self._lock:
            due = [(name, one) for name, one in self._watched.items() if one.due_at <= now]
        samples = (self._sample(name, one) for name, one in due if not self._stopping.is_set())
        self._store.append([sample for sample in samples if sample])

    def _sample(self, container_id: str, one: _Watched) -> UsageSample | None:
        try:
            usage = self._engine.read_usage(container_id)
        except Exception as error:
            # Nothing depends on samples; the loop reports an engine that is away.
            one.failures += 1
            pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(one.failures - 1, 16), _LONGEST_PAUSE_SECONDS)
            one.due_at = self._clock() + pause
            logger.debug("usage not sampled", container=container_id, reason=repr(error))
            return None
        at, moment = self._clock(), datetime.now(UTC)
        age = (moment - one.started_at).total_seconds()
        one.due_at, one.failures = at + pause_seconds(age), 0
        if usage is None:
            return None
        at, moment = at - usage.age_seconds, moment - timedelta(seconds=usage.age_seconds)
        age -= usage.age_seconds
        if one.last and at - one.last_at < _LEAST_SECONDS:
            return None  # it is the sample that is stored: its machine has taken no other since
        # The first look knows the average since the start.
        seconds = at - one.last_at if one.last else max(age, 1e-3)
        used = usage.cpu_seconds - (one.last.cpu_seconds if one.last else 0.0)
        one.last, one.last_at = usage, at
        return UsageSample(
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
            except sa.exc.SQLAlchemyError as error:
                logger.debug("usage not stored", reason=str(error))
            except Exception:
                # The thread serves all jobs and must outlive a bug with one of them; the trace is in the log.
                logger.exception("sampling failed")
