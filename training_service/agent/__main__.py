"""
``python -m training_service.agent``: the agent of one machine.

The training service starts it as a service of its swarm; what it needs is in the environment.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from pathlib import Path

import structlog

from container_engines.confinement import MACHINE_NAME
from container_engines.egress import Egress, EgressMode, Endpoint
from container_engines.swarm.way_out import interface_of, network_name
from training_service.agent.bridge_keeper import BridgeKeeper
from training_service.agent.disk_sampler import DiskSampler
from training_service.agent.local_engine import LocalEngine
from training_service.agent.node_agent import NodeAgent
from training_service.agent.replica_addresses import BRIDGE, ReplicaAddresses
from training_service.agent.replica_callers import ReplicaCallers
from training_service.agent.service_client import ServiceClient
from training_service.metadata.app import create_metadata_app
from training_service.metadata.server import MetadataServer


def main() -> int:
    """Run until SIGTERM or SIGINT; return the exit status."""
    logging.basicConfig(level=logging.INFO)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    environment = {}
    for name in ("URL", "NODE", "FOLDER", "LABEL", "TOKEN_FILE"):
        environment[name] = os.environ.get(f"TRAINING_AGENT_{name}", "")
        if not environment[name]:
            print(f"TRAINING_AGENT_{name} must be set: the training service sets it", file=sys.stderr)
            return 2
    token = Path(environment["TOKEN_FILE"]).read_text("utf-8").strip()
    authority = os.environ.get("TRAINING_AGENT_AUTHORITY_FILE", "")
    client = ServiceClient(environment["URL"], token, environment["NODE"], authority=authority)
    socket = os.environ.get("TRAINING_AGENT_DOCKER_SOCKET", "")
    label = environment["LABEL"]
    engine = LocalEngine(socket, label)
    bridge = _bridge(socket, label)
    port = int(os.environ.get("TRAINING_AGENT_METADATA_PORT", "0"))
    metadata = _metadata(socket, label, client, port, is_limited=bridge is not None) if port else None
    disks = DiskSampler(socket, label) if os.environ.get("TRAINING_AGENT_COUNTS_DISK") == "1" else None
    folder = Path(environment["FOLDER"]) / environment["NODE"]
    agent = NodeAgent(folder, client, engine, metadata, bridge, disks)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    agent.run()
    client.close()
    engine.close()
    return 0


def _bridge(socket: str, label: str) -> BridgeKeeper | None:
    """Return what limits what jobs reach; ``None``: nothing does."""
    mode = EgressMode(os.environ.get("TRAINING_AGENT_EGRESS", EgressMode.OPEN))
    if mode is EgressMode.OPEN:
        return None
    # docker-py takes 6 MiB, which an agent without limits does not need.
    from container_engines.docker.client import DockerConnection
    from container_engines.swarm.machine_bridge import MachineBridge

    allowed = json.loads(os.environ.get("TRAINING_AGENT_EGRESS_ALLOW", "[]"))
    egress = Egress(mode, tuple(map(Endpoint.parse, allowed)))
    return BridgeKeeper(MachineBridge(DockerConnection(f"unix://{socket}"), _service_id(label), egress))


def _metadata(
    socket: str, label: str, client: ServiceClient, port: int, *, is_limited: bool
) -> MetadataServer:
    """Return the metadata endpoint, for containers in this machine's bridge of the swarm alone."""
    service_id = _service_id(label)
    network, interface = (
        (network_name(service_id), interface_of(service_id)) if is_limited else (BRIDGE, BRIDGE)
    )
    addresses = ReplicaAddresses(socket, label, network=network)
    app = create_metadata_app(ReplicaCallers(addresses, client).at)
    return MetadataServer(app, MACHINE_NAME, port, interface=interface)


def _service_id(label: str) -> str:
    return label.partition("=")[2]


if __name__ == "__main__":
    sys.exit(main())
