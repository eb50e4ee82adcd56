"""
From when to when the parts that move jobs run.

With the app, and only while this service is the active one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import structlog

from container_engines.base import Engine
from training_service.intake.log_collector import LogCollector
from training_service.intake.metric_collector import MetricCollector
from training_service.intake.node_streams import NodeStreams
from training_service.intake.usage_sampler import UsageSampler
from training_service.loop.scheduler import Scheduler
from training_service.metadata.server import MetadataServer
from training_service.store.jobs.job_store import JobStore
from training_service.store.loop_connections import LoopConnections
from training_service.upkeep.disk_watch import DiskWatch
from training_service.upkeep.keeper import Keeper

logger = structlog.get_logger(__name__)


class Stoppable(Protocol):
    """A part with a thread of its own."""

    def stop(self) -> None:
        """End it; it need not have been started."""


class Startable(Stoppable, Protocol):
    """One that starts by itself."""

    def start(self) -> None:
        """Start it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """
    The parts that move jobs.

    :param streams: what agents of machines read; ``None``: this process reads.
    """

    moving: LoopConnections
    store: JobStore
    scheduler: Scheduler
    collector: LogCollector
    reports: MetricCollector
    streams: NodeStreams | None
    agents: Sequence[Startable]
    summaries: Sequence[Startable]
    sampler: UsageSampler
    watch: DiskWatch
    keeper: Keeper
    metadata: MetadataServer | None
    judging: Executor
    engine: Engine

    @contextmanager
    def running(self) -> Iterator[None]:
        """
        Run the parts until the block ends.

        On PostgreSQL they begin when this service becomes the active one.
        """
        if self.metadata and not self.moving.has_standby:
            self.metadata.start()
        self.moving.start(self._start, self._tick)
        try:
            yield
        finally:
            self._stop()

    def _start(self) -> None:
        for part in (self.collector, *self.summaries, *self.agents):
            part.start()
        self.reports.start(job.uid for job in self.store.list_active())
        self.scheduler.start()
        self.sampler.start()
        self.watch.start()
        self.keeper.start()
        counts = self.store.count_by_state()
        adopted = sum(count for state, count in counts.items() if not state.is_terminal)
        logger.info("ready", adopted_jobs=adopted, database=self.moving.loop.url.render_as_string())

    def _tick(self) -> None:
        # What another service has stored did not wake this loop.
        self.scheduler.notify()
        if self.metadata:
            self.metadata.keep_trying()

    def _stop(self) -> None:
        parts: Sequence[Stoppable] = (
            self.keeper,
            self.scheduler,
            self.sampler,
            self.watch,
            self.collector,
            self.reports,
        )
        for part in (*parts, *self.summaries, *self.agents):
            part.stop()
        if self.metadata:
            self.metadata.stop()
        self.judging.shutdown(wait=False, cancel_futures=True)
        # Last: nothing is written any more when another service goes on.
        self.moving.stop()
        self.engine.close()
        logger.info("stopped; running containers go on and are adopted at the next start")
