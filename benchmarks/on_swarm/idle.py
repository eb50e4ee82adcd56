"""Memory and share of a core that a machine's agent takes while nothing is reported."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import psutil

from benchmarks.report import Figure
from benchmarks.support.core_share import core_share
from benchmarks.support.three_machines import ThreeMachines

SECONDS = 60.0
#: An agent that has just started is not idle yet.
_SETTLE_SECONDS = 5.0
_MACHINES = 3
_PROGRAM = ["-m", "training_service.agent"]
_MIB = 2**20


def measure(machines: ThreeMachines, seconds: float = SECONDS) -> list[Figure]:
    """
    Return the figures of the agent that takes most, of a number of seconds.

    It waits until each machine has one.
    """
    while len(agents := _agents(machines.swarm.name)) < _MACHINES:
        time.sleep(1)
    time.sleep(_SETTLE_SECONDS)
    with ExitStack() as looks:
        shares = [looks.enter_context(core_share(agent)) for agent in agents]
        time.sleep(seconds)
    memory = [agent.memory_info().rss / _MIB for agent in agents]
    return [
        Figure(name="memory of an idle agent", value=round(max(memory), 1), unit="MiB", limit=60e6 / _MIB),
        Figure(
            name="idle agent",
            value=round(max(one.percent for one in shares), 2),
            unit="% of a core",
            limit=0.5,
        ),
    ]


def _agents(swarm: str) -> list[psutil.Process]:
    """Return the agents' processes; their control groups begin with the swarm's name."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        # Not the init process of its container, which has the same words behind others.
        if (process.info["cmdline"] or [])[1:] == _PROGRAM and f"/{swarm}-" in _groups(process)
    ]


def _groups(process: psutil.Process) -> str:
    return Path(f"/proc/{process.pid}/cgroup").read_text()
