"""
How soon the replicas of a machine that dies run again on the others.

Twelve jobs run on three machines, four of them with a worker. A machine that is not the manager loses its
power; the clock runs from then until the swarm says that each of its replicas runs elsewhere.
"""

from __future__ import annotations

import time
from contextlib import closing
from statistics import median
from typing import Any

from benchmarks.report import Figure
from benchmarks.support.bench_jobs import has_ended, new_job, submit, wait_until
from benchmarks.support.three_machines import ThreeMachines
from container_engines.labels import JOB_UID
from tests.support.bed.machines import Node
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import ReplicaConfig

_ALONE, _PAIRS = 8, 4
_WAITS = ["python3", "-c", "import time; time.sleep(3600)"]
_POLL_SECONDS = 0.1
_PATIENCE_SECONDS = 300.0
#: A machine, a job and a host name.
_Replica = tuple[str, str, str]


def measure(machines: ThreeMachines) -> list[Figure]:
    """
    Return the figures of one machine that dies; it is up again afterwards.

    :raises RuntimeError: its replicas do not run again in five minutes.
    """
    client, by_hand, swarm = machines.client, machines.by_hand, machines.swarm
    jobs = [_submit(client, machines.image, workers=int(n < _PAIRS)) for n in range(_ALONE + _PAIRS)]
    before = _until_running(machines, _ALONE + 2 * _PAIRS)
    ids = {node.name: _id_of(node) for node in swarm.nodes[1:]}
    victim = max(swarm.nodes[1:], key=lambda node: len(_on(ids[node.name], before)))
    lost = {replica[1:] for replica in _on(ids[victim.name], before)}
    started = time.perf_counter()
    victim.power_off()
    try:
        seconds = _times_again(machines, lost, ids[victim.name], started)
    finally:
        for job_id in jobs:
            client.cancel_job(job_id)
        victim.start()
        swarm.wait_for_ready()
    for job_id in jobs:
        wait_until(client, job_id, has_ended)
    by_hand.wait_until_gone({"label": JOB_UID})
    return [
        Figure(name="replicas of the machine that died", value=len(lost), unit=""),
        Figure(name="until all of them run again", value=round(max(seconds), 1), unit="s", limit=30.0),
        Figure(name="until a replica runs again, median", value=round(median(seconds), 1), unit="s"),
    ]


def _submit(client: TrainingClient, image: str, workers: int) -> str:
    pool: dict[str, Any] = {
        "worker_type": "n1-standard-4",
        "worker_count": workers,
        "worker_config": ReplicaConfig(image_uri=image, container_command=_WAITS),
    }
    machines: dict[str, Any] = {
        "scale_tier": "CUSTOM",
        "master_type": "n1-standard-4",
        **(pool if workers else {}),
    }
    return submit(client, new_job(image, _WAITS, **machines))


def _until_running(machines: ThreeMachines, count: int) -> set[_Replica]:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while len(running := machines.by_hand.running(JOB_UID)) < count:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(running)} replicas run after {_PATIENCE_SECONDS:g} s, not {count}")
        time.sleep(_POLL_SECONDS)
    return running


def _times_again(
    machines: ThreeMachines, lost: set[tuple[str, str]], victim: str, started: float
) -> list[float]:
    """Return the seconds since ``started`` until each of ``lost`` runs on another machine."""
    times: dict[tuple[str, str], float] = {}
    while len(times) < len(lost):
        now = time.perf_counter() - started
        if now > _PATIENCE_SECONDS:
            raise RuntimeError(f"{len(lost) - len(times)} replicas do not run again after {now:.0f} s")
        for machine, job, host in machines.by_hand.running(JOB_UID):
            if machine != victim and (job, host) in lost:
                times.setdefault((job, host), now)
        time.sleep(_POLL_SECONDS)
    return list(times.values())


def _on(machine: str, replicas: set[_Replica]) -> list[_Replica]:
    return [replica for replica in replicas if replica[0] == machine]


def _id_of(node: Node) -> str:
    with closing(node.client()) as client:
        return str(client.info()["Swarm"]["NodeID"])
