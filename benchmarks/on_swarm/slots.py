"""
How well a tuning job on three machines uses its four slots.

Its containers run for two seconds. A slot is busy while a trial holds it, as ``on_stack/tuning.py`` says.
Beside it the share of the slots' time without a running container, and the same of a person who makes Swarm
services by hand in four loops, the next one when the last has ended: what Swarm itself takes to start a
container.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.on_stack.tuning import SLOTS, TRAINER, TRIAL_SECONDS, use_of_slots
from benchmarks.report import Figure
from benchmarks.support.swarm_by_hand import SwarmByHand
from benchmarks.support.three_machines import ThreeMachines

TRIALS = 24
_POLL_SECONDS = 0.05
_ENDED = {"complete", "failed", "rejected"}


def measure(machines: ThreeMachines, trials: int = TRIALS) -> list[Figure]:
    """Return the figures of one tuning job, and of as many services by hand."""
    held, ran = use_of_slots(machines.client, machines.image, ["python3", "-c", TRAINER], trials)
    by_hand = _idle_by_hand(machines.by_hand, machines.image, trials)
    return [
        Figure(
            name="slots left idle, containers of 2 s", value=round(1 - held, 4), unit="of all", limit=0.15
        ),
        Figure(name="without a running container", value=round(1 - ran, 4), unit="of all"),
        Figure(name="the same, services by hand", value=round(by_hand, 4), unit="of all"),
    ]


def _idle_by_hand(by_hand: SwarmByHand, image: str, trials: int) -> float:
    """Return the share of the loops' time in which their containers did not run."""
    with by_hand.network() as (network_id, name):
        started = time.perf_counter()
        with ThreadPoolExecutor(SLOTS) as loops:
            list(
                loops.map(lambda number: _run(by_hand, f"{name}-{number}", image, network_id), range(trials))
            )
        return 1 - trials * TRIAL_SECONDS / (SLOTS * (time.perf_counter() - started))


def _run(by_hand: SwarmByHand, name: str, image: str, network_id: str) -> None:
    """Run one service to its end, and remove it."""
    sleeps = ["python3", "-c", f"import time; time.sleep({TRIAL_SECONDS})"]
    made = by_hand.create(
        {
            "Name": name,
            "Mode": {"Replicated": {"Replicas": 1}},
            "EndpointSpec": {"Mode": "dnsrr"},
            "TaskTemplate": {
                "ContainerSpec": {"Image": image, "Command": sleeps, "Init": True},
                "RestartPolicy": {"Condition": "none"},
                "Networks": [{"Target": network_id}],
            },
        }
    )
    by_hand.wait_for(1, _ENDED, _POLL_SECONDS, service=made)
    by_hand.remove(made)
