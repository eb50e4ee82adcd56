"""The agents of a swarm's machines: what they are, and what the service knows of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from container_engines.swarm.agent import AgentLaunch
from training_service.access.agent_token import agent_token
from training_service.access.signing_key import SigningKey
from training_service.intake.metric_reader import MetricReader
from training_service.intake.metric_stream import ReportSink, StreamReading
from training_service.intake.node_streams import NodeStreams
from training_service.settings import EngineKind, ServiceSettings
from training_service.store.jobs.job_store import JobStore


def agent_launch(settings: ServiceSettings, key: SigningKey) -> AgentLaunch | None:
    """Return what the agents are; ``None``: the service has one machine, or no image for them."""
    if settings.engine is not EngineKind.SWARM or not settings.agent_image:
        return None
    return AgentLaunch(
        image=settings.agent_image,
        url=settings.agent_url,
        token=agent_token(key),
        folder=settings.agent_folder.rstrip("/"),
        docker_socket=settings.agent_docker_socket,
    )


def stream_reading(
    settings: ServiceSettings,
    agent: AgentLaunch | None,
    store: JobStore,
    sink: ReportSink,
    on_drained: Callable[[], None],
) -> StreamReading:
    """Return what reads metrics: agents, or else this process."""
    if agent is None:
        return MetricReader(settings.metrics_folder / store.service_id, sink, on_drained)
    folder = partial(agent.metric_folder, store.service_id)
    return NodeStreams(folder, sink, store.active_uids, on_drained)
