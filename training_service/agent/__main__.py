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

from training_service.agent.local_engine import LocalEngine
from training_service.agent.node_agent import NodeAgent
from training_service.agent.service_client import ServiceClient


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
    engine = LocalEngine(os.environ.get("TRAINING_AGENT_DOCKER_SOCKET", ""), environment["LABEL"])
    agent = NodeAgent(Path(environment["FOLDER"]) / environment["NODE"], client, engine)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    agent.run()
    client.close()
    engine.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
