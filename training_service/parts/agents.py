"""The agents of a swarm's machines: what they are, and what the service knows of them."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import structlog

from container_engines.confinement import MACHINE_NAME
from container_engines.egress import EgressMode
from container_engines.swarm.agent import AgentLaunch
from training_api.errors import TrainingError
from training_api.iam.registry_wire import is_same_registry
from training_api.job.image_ref import names_registry, parse_image_ref
from training_service.access.agent_token import AgentTokens
from training_service.access.registry_tokens import own_token
from training_service.access.signing_key import SigningKey
from training_service.intake.metric_reader import MetricReader
from training_service.intake.metric_stream import ReportSink, StreamReading
from training_service.intake.node_streams import NodeStreams
from training_service.metadata.server import metadata_environment
from training_service.settings import EngineKind, ServiceSettings
from training_service.store.jobs.job_store import JobStore

logger = structlog.get_logger(__name__)


class InvalidAuthority(TrainingError):
    """The file of ``TRAINING_AGENT_AUTHORITY`` cannot be used."""


def agent_launch(settings: ServiceSettings, key: SigningKey) -> AgentLaunch | None:
    """
    Return what the agents are; ``None``: the service has one machine, or no image for them.

    :raises InvalidAuthority: the file of their authority is none.
    """
    if settings.engine is not EngineKind.SWARM or not settings.agent_image:
        return None
    launch = AgentLaunch(
        image=settings.agent_image,
        url=settings.agent_url,
        token_of=AgentTokens(key).of,
        folder=settings.agent_folder.rstrip("/"),
        docker_socket=settings.agent_docker_socket,
        metadata_port=settings.agent_metadata_port,
        counts_disk=bool(settings.disk_limit_bytes),
        egress=settings.reach if settings.egress is not EgressMode.OPEN else None,
        authority=_read_authority(settings.agent_authority) if settings.agent_authority else "",
        pull_token=_pull_token(settings, key),
    )
    if not launch.has_metadata:
        unset = "METADATA_PORT is 0" if launch.docker_socket else "DOCKER_SOCKET is empty"
        logger.info("jobs have no metadata endpoint", reason=f"TRAINING_AGENT_{unset}")
    return launch


def _pull_token(settings: ServiceSettings, key: SigningKey) -> Callable[[], str]:
    """Return what makes a token for the agents' image; empty: its registry is another's."""
    if not settings.registry or not names_registry(settings.agent_image):
        return str
    ref = parse_image_ref(settings.agent_image)
    if not is_same_registry(ref.host, settings.registry):
        return str
    return lambda: own_token(key, ref.repository, ["pull"])


def _read_authority(path: Path) -> str:
    """Return the certificates of a PEM file. :raises InvalidAuthority: it has none."""
    try:
        text = path.read_text("ascii")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (OSError, ValueError) as error:
        raise InvalidAuthority(
            f"TRAINING_AGENT_AUTHORITY must be a readable PEM file of certificates, got {str(path)!r}: {error}"
        ) from error
    return text


def agents_metadata(agent: AgentLaunch | None) -> Mapping[str, str]:
    """Return what tells containers where their machine's agent has the metadata endpoint."""
    return metadata_environment(MACHINE_NAME, agent.metadata_port) if agent and agent.has_metadata else {}


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
