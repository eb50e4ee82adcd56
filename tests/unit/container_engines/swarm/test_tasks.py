"""What a swarm's tasks say about replicas, in the words of Engine 20.10."""

from __future__ import annotations

from typing import Any

import pytest

from container_engines.labels import JOB_UID
from container_engines.swarm.tasks import TaskPhase, job_in, nodes_of, run_of
from training_api.job.machines import Resources

MIB = 1024**2


def node(
    node_id: str = "n1", state: str = "ready", availability: str = "active", **resources: Any
) -> dict[str, Any]:
    return {
        "ID": node_id,
        "Spec": {"Availability": availability},
        "Description": {
            "Hostname": f"host-{node_id}",
            "Resources": {"NanoCPUs": 2 * 10**9, "MemoryBytes": 512 * MIB, **resources},
        },
        "Status": {"State": state},
    }


def task(
    state: str,
    message: str = "",
    exit_code: int = 0,
    container: str = "c1",
    node_id: str = "n1",
    created: str = "2026-11-20T15:12:20.9Z",
) -> dict[str, Any]:
    return {
        "ID": f"task-{created}",
        "NodeID": node_id,
        "CreatedAt": created,
        "Status": {
            "State": state,
            "Message": message,
            "Timestamp": "2026-11-20T15:12:24.243324318Z",
            "ContainerStatus": {"ContainerID": container, "ExitCode": exit_code},
        },
    }


@pytest.mark.parametrize(
    ("task", "phase"),
    [
        (task("pending", node_id="", container=""), TaskPhase.WAITS),
        (task("preparing", container=""), TaskPhase.PREPARES),
        (task("running", "started"), TaskPhase.RUNS),
        (task("complete", "finished"), TaskPhase.ENDED),
        (task("failed", "started", 3), TaskPhase.ENDED),
        (task("shutdown", "shutdown", 143), TaskPhase.ENDED),
        (task("rejected", "preparing", container=""), TaskPhase.REFUSED),
        (task("rejected", "started"), TaskPhase.LOST),
        (task("failed", "starting", 127), TaskPhase.REFUSED),
        (task("shutdown", "shutdown", container=""), TaskPhase.REFUSED),
        (task("failed", "started", 0), TaskPhase.LOST),
        (task("orphaned", "started"), TaskPhase.LOST),
        (task("running", "started", node_id="down"), TaskPhase.LOST),
        (task("preparing", container="", node_id="down"), TaskPhase.LOST),
        (task("running", "started", node_id="removed"), TaskPhase.LOST),
        (task("failed", "started", 3, node_id="down"), TaskPhase.ENDED),
    ],
    ids=lambda value: value["Status"]["State"] + value["NodeID"] if isinstance(value, dict) else str(value),
)
def test_phase(task: dict[str, Any], phase: TaskPhase) -> None:
    run = run_of([task], nodes_of([node(), node("down", state="down")]))

    assert run is not None
    assert run.phase is phase


def test_the_first_task_is_the_run() -> None:
    stopped = task("shutdown", "shutdown", 143, created="2026-11-20T15:12:20.9Z")
    never = task("pending", node_id="", container="", created="2026-11-20T15:12:20.96Z")

    run = run_of([never, stopped], nodes_of([node()]))

    assert run is not None
    assert (run.phase, run.exit_code, run.node_name) == (TaskPhase.ENDED, 143, "host-n1")
    assert run_of([], {}) is None


def test_machines_that_are_drained_or_down_take_nothing() -> None:
    gpus = [
        {"NamedResourceSpec": {"Kind": "NVIDIA-GPU", "Value": "GPU-1"}},
        {"DiscreteResourceSpec": {"Kind": "NVIDIA-GPU", "Value": 2}},
        {"DiscreteResourceSpec": {"Kind": "FPGA", "Value": 4}},
    ]
    nodes = nodes_of(
        [node(GenericResources=gpus), node("n2", availability="drain"), node("n3", state="down")]
    )

    assert [each.is_open for each in nodes.values()] == [True, False, False]
    assert nodes["n1"].resources == Resources(cpus=2, memory_bytes=512 * MIB, gpus=3)


def of_job(task: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {**task, "Spec": {"ContainerSpec": {"Labels": labels or None}}}


@pytest.mark.parametrize(
    ("task", "found"),
    [
        (of_job(task("running", "started"), **{JOB_UID: "uid"}), "uid"),
        (of_job(task("starting"), **{JOB_UID: "uid"}), "uid"),
        (of_job(task("running", "started")), None),
        (of_job(task("running", "started", container="c2"), **{JOB_UID: "uid"}), None),
        (of_job(task("running", "started", node_id="n2"), **{JOB_UID: "uid"}), None),
        (of_job(task("complete", "finished"), **{JOB_UID: "uid"}), None),
        (of_job(task("failed", "started", 3), **{JOB_UID: "uid"}), None),
    ],
)
def test_a_job_is_in_a_container_that_lives_on_its_machine(task: dict[str, Any], found: str | None) -> None:
    assert job_in([task], "n1", "c1") == found
