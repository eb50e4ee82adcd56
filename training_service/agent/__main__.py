"""
``python -m training_service.agent``: the agent of one machine.

The training service starts it as a global service of its swarm; what it needs is in the environment.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

import structlog

from container_engines.confinement import MACHINE_NAME
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
    engine = LocalEngine(socket, environment["LABEL"])
    port = int(os.environ.get("TRAINING_AGENT_METADATA_PORT", "0"))
    metadata = _metadata(ReplicaAddresses(socket, environment["LABEL"]), client, port) if port else None
    agent = NodeAgent(Path(environment["FOLDER"]) / environment["NODE"], client, engine, metadata)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    agent.run()
    client.close()
    engine.close()
    return 0


def _metadata(addresses: ReplicaAddresses, client: ServiceClient, port: int) -> MetadataServer:
    """Return the metadata endpoint, for containers in this machine's bridge of the swarm alone."""
    app = create_metadata_app(ReplicaCallers(addresses, client).at)
    return MetadataServer(app, MACHINE_NAME, port, interface=BRIDGE)


if __name__ == "__main__":
    sys.exit(main())
