"""
DAG runs over two worker hosts with an engine each, and hosts that die.

``make test-hosts`` runs what the suite leaves out: all example DAGs, and a death in each phase.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import docker
import pytest

from tests.e2e.airflow_run import Run
from tests.e2e.two_hosts.bed import TwoHosts, WorkerHost, open_hosts
from tests.support.selection import cases
from tests.support.waiting import wait_until
from training_api.states import JobState

pytestmark = [
    pytest.mark.docker,
    pytest.mark.e2e,
    pytest.mark.needs_root,
    pytest.mark.needs_program("redis-server"),
    pytest.mark.timeout(1800),
]

_ALL = os.environ.get("TWO_HOSTS") == "all"
DAGS = ("train_digits", "tune_digits", "train_pytorch_ddp") if _ALL else ("train_digits",)
#: The task that runs, or whose job is waited for, when a host dies.
PHASES = ("build", "test", "push", "submit", "wait", "collect") if _ALL else ("build", "submit")
#: A framework is downloaded, compressed and pulled.
_PATIENCE_SECONDS = 1500.0


@pytest.fixture(scope="module")
def two(
    tmp_path_factory: pytest.TempPathFactory, base_image: str, engine_client: docker.APIClient
) -> Iterator[TwoHosts]:
    with open_hosts(tmp_path_factory.mktemp("hosts"), base_image, engine_client) as two:
        yield two


def hosts_of(two: TwoHosts, run: Run) -> dict[str, str]:
    """Return the machine of each task's newest try."""
    tasks = two.api.task_instances(run.dag_id, run.run_id)
    return {task["task_id"]: task["hostname"] for task in tasks if task["hostname"]}


def digests_on(host: WorkerHost) -> set[str]:
    """Return the digests of the images on a host that a registry has, too."""
    with closing(host.node.client()) as engine:
        return {name.partition("@")[2] for image in engine.images() for name in image["RepoDigests"] or ()}


@pytest.mark.extended
@pytest.mark.parametrize("dag_id", DAGS)
def test_a_run_succeeds_with_its_tasks_on_both_hosts(dag_id: str, two: TwoHosts) -> None:
    there_before = digests_on(two.hosts["node2"])
    run = Run.start(two.api, dag_id, {"spread": True, "epochs": 5})

    run.wait_for_success(patience_seconds=_PATIENCE_SECONDS)

    hosts = hosts_of(two, run)
    group = next(task for task in hosts if task.endswith(".build")).partition(".")[0]
    assert (hosts[f"{group}.build"], hosts[f"{group}.test"]) == ("node1", "node2")
    assert set(hosts.values()) == {"node1", "node2"}
    built, pushed = run.xcom(f"{group}.build"), run.xcom(f"{group}.push")
    assert built.partition("@")[2] == pushed.partition("@")[2]
    # Two of the examples have one trainer, and so one image.
    is_pulled = built.partition("@")[2] not in there_before
    assert (f"pulling {built}" in run.log(f"{group}.test")) == is_pulled
    assert "nothing is pushed" in run.log(f"{group}.push")


@pytest.mark.parametrize("phase", cases(PHASES, witnesses=["build"]))
def test_a_host_that_dies_loses_nothing(phase: str, two: TwoHosts) -> None:
    run = Run.start(two.api, "slow_pipeline")
    task = "train.wait_until_finished" if phase == "wait" else f"train.{phase}"
    middle = ["deferred"] if phase == "wait" else ["running"]
    if phase == "submit":
        # Nothing slows it down: it may be over before anybody has looked.
        middle.append("success")
    wait_until(
        lambda: run.states().get(task) in middle,
        f"{task} is in its middle",
        seconds=240,
        poll_seconds=0.1,
    )
    # Whose task waits, or has run last, is as good as any.
    victim = two.hosts[hosts_of(two, run).get(task) or "node1"]

    victim.kill()
    is_cut = run.states()[task] == "running"
    try:
        run.wait_for_success(patience_seconds=_PATIENCE_SECONDS)
    finally:
        victim.start()

    assert is_cut or phase in ("wait", "submit")
    # What nothing slows down may have said that it is over just before the kill.
    assert run.tries(task) > 1 or not is_cut or phase == "submit"
    labels = [run.run_id]
    jobs = [job for job in two.training.list_jobs(page_size=100).jobs or [] if is_of(job.labels, labels[0])]
    assert [job.state for job in jobs] == [JobState.SUCCEEDED]
    assert run.xcom("train.collect")["metrics"] == {"accuracy": 1.0}


def is_of(labels: dict[str, str] | None, run_id: str) -> bool:
    """Whether a job's labels are those of the run."""
    return (labels or {}).get("run") == run_id.lower().translate(str.maketrans(":+.", "---"))
