"""
The agent of a machine: it passes on to the service what containers leave there.

It also serves them the metadata endpoint. It keeps nothing but the metric folders: what the service has not
stored lies in them, so that an agent that is killed is resumed by the next one.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import structlog

from container_engines.swarm.facts import MachineFacts
from training_api.errors import EngineError
from training_service.agent.bridge_keeper import BridgeKeeper
from training_service.agent.disk_sampler import DiskSampler
from training_service.agent.local_engine import LocalEngine
from training_service.agent.rows import stream_of
from training_service.agent.service_client import ServiceClient
from training_service.agent.wire import SyncResponse
from training_service.intake.metric_reader import MetricReader
from training_service.intake.metric_stream import SinkUnavailable
from training_service.metadata.server import MetadataServer

#: How long to wait for a stream's last reports before the service is told what is there.
_DRAIN_SECONDS = 0.5
_RETRY_SECONDS = 1.0

logger = structlog.get_logger(__name__)


class NodeAgent:
    """
    Does what the service orders, until it is stopped.

    :param root: this machine's folder of streams.
    :param metadata: the metadata endpoint of the jobs here; ``None``: there is none.
    :param bridge: keeps the limits of what jobs reach; ``None``: there are none.
    :param disks: counts what jobs write; ``None``: the service does not limit it.
    """

    def __init__(
        self,
        root: Path,
        service: ServiceClient,
        engine: LocalEngine,
        metadata: MetadataServer | None = None,
        bridge: BridgeKeeper | None = None,
        disks: DiskSampler | None = None,
    ) -> None:
        self._engine = engine
        self._metadata = metadata
        self._bridge = bridge
        self._disks = disks
        self._beside: list[BridgeKeeper | DiskSampler] = [
            each for each in (bridge, disks) if each is not None
        ]
        self._service = service
        self._drained = threading.Event()
        self._reader = MetricReader(root, service, self._drained.set)
        self._stopping = threading.Event()
        self._seen = ""
        self._is_answered = True

    def run(self) -> None:
        """Serve until ``stop`` is called."""
        self._reader.adopt()
        for each in self._beside:
            each.start()
        try:
            while not self._stopping.is_set():
                if self._metadata:
                    self._metadata.keep_trying()
                try:
                    self.sync()
                    self._report(answers=True)
                except SinkUnavailable as error:
                    self._report(answers=False, reason=str(error))
                    self._stopping.wait(_RETRY_SECONDS)
                except Exception:
                    # It serves all trainers of its machine and must outlive a bug; the trace is in the log.
                    logger.exception("exchange with the service failed")
                    self._stopping.wait(_RETRY_SECONDS)
        finally:
            if self._metadata:
                self._metadata.stop()
            for each in self._beside:
                each.stop()
            self._reader.stop()

    def stop(self) -> None:
        """End soon; safe from any thread, and in a handler of a signal."""
        self._stopping.set()

    def sync(self) -> None:
        """
        Tell the service what is here, and do what it answers.

        :raises SinkUnavailable: it did not answer.
        """
        self._service.send_warnings()
        drained, opened = self._reader.drained, self._reader.opened
        self._drained.clear()
        answer = self._service.sync(
            seen=self._seen,
            opened=opened,
            drained=drained,
            jobs=self._reader.job_uids(),
            facts=self._facts(),
        )
        if self._obey(answer):
            self._drained.wait(_DRAIN_SECONDS)
        self._seen = answer.version

    def _facts(self) -> MachineFacts:
        return replace(
            self._engine.facts(),
            egress=self._bridge.digest if self._bridge else "",
            disk=self._disks.sizes if self._disks else {},
        )

    def _obey(self, answer: SyncResponse) -> bool:
        """Do what is ordered; whether a stream is now read to its end."""
        ends = False
        for order in answer.streams:
            stream = stream_of(order)
            try:
                self._reader.open(stream)
            except EngineError as error:
                logger.error("stream not opened", stream=stream.folder, reason=str(error))
                continue
            self._reader.follow(stream, has_ended=order.has_ended)
            ends = ends or (order.has_ended and stream not in self._reader.drained)
        for uid in answer.remove:
            self._reader.remove(uid)
        return ends

    def _report(self, *, answers: bool, reason: str = "") -> None:
        if answers != self._is_answered:
            self._is_answered = answers
            if answers:
                logger.info("the service answers again")
            else:
                logger.error("the service does not answer, trying again", reason=reason)
