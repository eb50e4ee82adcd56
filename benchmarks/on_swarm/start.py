"""
How fast a job of seven replicas starts on three machines.

From create to RUNNING of one master, four workers and two parameter servers; beside it the same Swarm
services, made by hand: an overlay network and seven requests to the manager's API, one after the other, until
the swarm says that all seven run. The two take turns. The services by hand are those of a job that ran
before, on the same machines, without its labels, and without its folder for metrics, which is gone.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.on_stack.distributed import seven_replicas
from benchmarks.report import Figure, median_figure
from benchmarks.support.bench_jobs import has_ended, submit, wait_until
from benchmarks.support.swarm_by_hand import SwarmByHand
from benchmarks.support.three_machines import ThreeMachines
from container_engines.labels import JOB_UID

ROUNDS = 7
_POLL_SECONDS = 0.01


def measure(machines: ThreeMachines, rounds: int = ROUNDS) -> list[Figure]:
    """Return the figures of ``rounds`` turns each."""
    jobs, hands = [], []
    _, specs = _time_job(machines)  # the first one pays for caches
    for _ in range(rounds):
        hands.append(_time_by_hand(machines.by_hand, specs))
        jobs.append(_time_job(machines)[0])
    ratios = [job / hand for job, hand in zip(jobs, hands, strict=True)]
    return [
        median_figure("create to RUNNING, 7 replicas", jobs),
        median_figure("the same services by hand", hands),
        median_figure("ratio", ratios, unit="x", limit=1.5),
    ]


def _time_job(machines: ThreeMachines) -> tuple[float, list[dict[str, Any]]]:
    """Return the seconds until a reader sees RUNNING, and the job's services as specified."""
    client, by_hand = machines.client, machines.by_hand
    job = seven_replicas(machines.image)
    started = time.perf_counter()
    job_id = submit(client, job)
    wait_until(client, job_id, lambda job: job.start_time is not None, _POLL_SECONDS)
    seconds = time.perf_counter() - started
    specs = by_hand.specs(f"container-training.job={job_id}")
    client.cancel_job(job_id)
    wait_until(client, job_id, has_ended)
    by_hand.wait_until_gone({"label": JOB_UID})
    return seconds, specs


def _time_by_hand(by_hand: SwarmByHand, specs: Sequence[dict[str, Any]]) -> float:
    """Return the seconds until the services of ``specs`` run in a network of their own."""
    started = time.perf_counter()
    with by_hand.network() as (network_id, name):
        for number, spec in enumerate(specs):
            by_hand.create(_of_a_person(spec, f"{name}-{number}", network_id))
        by_hand.wait_for(len(specs), {"running"}, _POLL_SECONDS, name=name)
        return time.perf_counter() - started


def _of_a_person(spec: dict[str, Any], name: str, network_id: str) -> dict[str, Any]:
    """Return a job's service as one that no training service knows."""
    changed = copy.deepcopy(spec)
    task = changed["TaskTemplate"]
    changed |= {"Name": name, "Labels": {}}
    task["ContainerSpec"] |= {"Mounts": [], "Labels": {}}
    task["Networks"] = [{**task["Networks"][0], "Target": network_id}]
    return changed
