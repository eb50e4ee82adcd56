"""A start on a swarm whose machines take long to get the image, or cannot get it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from container_engines.base import ReplicaLaunch, StillStarting, Usage
from container_engines.disk_use import DiskUse
from container_engines.egress import Egress, EgressMode
from container_engines.labels import replica_labels
from container_engines.swarm.agent import AgentLaunch
from container_engines.swarm.engine import SwarmEngine
from container_engines.swarm.facts import MachineFacts
from container_engines.swarm.tasks import Node, Run, TaskPhase
from tests.support.speed import scaled
from training_api.errors import EngineError, EngineUnavailable
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.machines import Resources
from training_api.job.restarts import Attempt
from training_api.states import ReplicaState

LAUNCH = ReplicaLaunch(
    job_uid="0123456789ab",
    job_id="job",
    project="project",
    replica=ReplicaId(role=ReplicaRole.MASTER),
    attempt=Attempt(),
    image_id="registry.test/project/image@sha256:" + "0" * 64,
    host_name="cmle-training-master-0123456789-0",
    command=(),
    args=(),
    environment={},
    resources=Resources(cpus=1, memory_bytes=2**20),
    pids_limit=64,
)


class Manager:
    """A swarm of one machine, which prepares each run until the test says how that ended."""

    connection = client = None

    def __init__(self) -> None:
        self.phase = TaskPhase.PREPARES
        self.answers = self.is_open = True
        self.joined: list[str] = []
        self.made = 0
        self.removed = 0

    def services(self, _job_uid: str = "") -> list[dict[str, Any]]:
        return []

    def nodes(self) -> dict[str, Node]:
        size = Resources(cpus=8, memory_bytes=2**40)
        return {"n1": Node(node_id="n1", name="one", resources=size, is_down=False, is_open=self.is_open)}

    def ensure_network(self, _: ReplicaLaunch, *, is_internal: bool) -> str:
        return "internal network" if is_internal else "network"

    def ensure_way_out(self) -> str:
        return "way out"

    def ensure_service(self, spec: Mapping[str, Any], _headers: dict[str, str]) -> str:
        self.joined = [each["Target"] for each in spec["TaskTemplate"]["Networks"]]
        if self.made == self.removed:
            self.made += 1
            self.phase = TaskPhase.PREPARES
        return "service"

    def remove_service(self, _: str) -> None:
        self.removed += 1

    def runs(self, service_ids: list[str]) -> dict[str, Run | None]:
        if not self.answers:
            raise EngineUnavailable("the manager does not answer")
        now = datetime.now(UTC)
        run = Run(
            task_id="task",
            node_id="n1",
            node_name="one",
            container_id="",
            phase=self.phase,
            exit_code=0,
            why="No such image: x" if self.phase is TaskPhase.REFUSED else "",
            created_at=now,
            at=now,
        )
        return dict.fromkeys(service_ids, run)


def engine_of(manager: Manager, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> SwarmEngine:
    monkeypatch.setattr("container_engines.swarm.engine._PULL_PAUSE_SECONDS", 0)
    engine = SwarmEngine("service", "tcp://127.0.0.1:1", **settings)
    monkeypatch.setattr(engine, "_swarm", manager)
    monkeypatch.setattr(engine._images, "is_gone", lambda *_: False)
    return engine


@pytest.mark.extended
def test_a_start_waits_a_few_seconds_for_a_machine_that_pulls_and_goes_on_when_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manager = Manager()
    engine = engine_of(manager, monkeypatch)
    began = time.monotonic()

    with pytest.raises(StillStarting, match="a replica still prepares on machine one after 3 s"):
        engine.start_replica(LAUNCH)

    assert time.monotonic() - began < scaled(30)
    manager.phase = TaskPhase.RUNS
    engine.start_replica(LAUNCH)
    assert (manager.made, manager.removed) == (1, 0)


@pytest.mark.parametrize(("answers", "removed"), [(True, 1), (False, 0)])
def test_a_chosen_machine_without_room_is_given_up_and_a_manager_that_does_not_answer_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, answers: bool, removed: int
) -> None:
    monkeypatch.setattr("container_engines.swarm.engine._PLACE_SECONDS", 0)
    manager = Manager()
    engine = engine_of(manager, monkeypatch)
    monkeypatch.setattr(engine, "_ensure_service", lambda _: "service")
    manager.phase, manager.answers = TaskPhase.WAITS, answers

    with pytest.raises(EngineUnavailable):
        engine.start_replica(replace(LAUNCH, machine="n1"))

    assert manager.removed == removed


@pytest.mark.parametrize(
    ("machine", "says"), [("n1", "machine one takes no replica"), ("gone", "machine gone takes no replica")]
)
def test_a_chosen_machine_that_takes_nothing_is_given_up_at_once(
    monkeypatch: pytest.MonkeyPatch, machine: str, says: str
) -> None:
    manager = Manager()
    engine = engine_of(manager, monkeypatch)
    monkeypatch.setattr(engine, "_ensure_service", lambda _: "service")
    manager.phase, manager.is_open = TaskPhase.WAITS, machine != "n1"
    began = time.monotonic()

    with pytest.raises(EngineUnavailable, match=says):
        engine.start_replica(replace(LAUNCH, machine=machine))

    assert time.monotonic() - began < scaled(30)
    assert manager.removed == 1


def test_a_replica_that_runs_stays_on_its_machine_while_that_is_drained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manager = Manager()
    engine = engine_of(manager, monkeypatch)
    monkeypatch.setattr(engine, "_ensure_service", lambda _: "service")
    manager.phase, manager.is_open = TaskPhase.RUNS, False

    engine.start_replica(replace(LAUNCH, machine="n1"))

    assert manager.removed == 0


def test_a_machine_gets_three_tries_for_an_image_however_long_each_of_them_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manager = Manager()
    engine = engine_of(manager, monkeypatch, prepare_seconds=0)

    for _ in range(3):
        with pytest.raises(StillStarting):
            engine.start_replica(LAUNCH)
        manager.phase = TaskPhase.REFUSED

    with pytest.raises(
        EngineError, match=r"machine one could not get registry.test/project/image.*, which is"
    ):
        engine.start_replica(LAUNCH)
    assert (manager.made, manager.removed) == (3, 3)


class EndedElsewhere(Manager):
    """Its one run was ended by SIGKILL on a machine that is not the manager's."""

    def services(self, _job_uid: str = "") -> list[dict[str, Any]]:
        return [{"ID": "service", "Spec": {"Labels": replica_labels("service", LAUNCH)}}]

    def networks(self) -> list[dict[str, Any]]:
        return []

    def is_out_of_memory(self, _: Run) -> None:
        return None

    def runs(self, service_ids: list[str]) -> dict[str, Run | None]:
        self.phase = TaskPhase.ENDED
        runs = super().runs(service_ids)
        return {
            key: replace(run, exit_code=137, container_id="container") if run else None
            for key, run in runs.items()
        }


AGENT = AgentLaunch(image="image", url="http://service", token_of=str, folder="/folder", docker_socket="/s")


def seen(engine: SwarmEngine) -> tuple[ReplicaState, bool]:
    (replica,) = engine.observe().replicas
    return replica.state, replica.out_of_memory


@pytest.mark.parametrize("is_full", [True, False])
def test_an_end_by_sigkill_on_another_machine_waits_for_what_its_agent_says(
    monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    engine = engine_of(EndedElsewhere(), monkeypatch, agent=AGENT)

    assert seen(engine) == (ReplicaState.RUNNING, False)
    engine.facts.tell("n1", MachineFacts(out_of_memory={"other": True}, usage={}))
    assert seen(engine) == (ReplicaState.RUNNING, False)
    engine.facts.tell("n1", MachineFacts(out_of_memory={"container": is_full}, usage={}))
    assert seen(engine) == (ReplicaState.EXITED, is_full)
    engine.facts.tell("n1", MachineFacts(out_of_memory={}, usage={}))
    assert seen(engine) == (ReplicaState.EXITED, is_full)


@pytest.mark.parametrize("agent", [None, replace(AGENT, docker_socket=""), AGENT])
def test_an_end_that_no_agent_speaks_of_is_one_by_the_machine(
    monkeypatch: pytest.MonkeyPatch, agent: AgentLaunch | None
) -> None:
    # No agent, one without the engine's socket, and one that is away for long.
    monkeypatch.setattr("container_engines.swarm.engine._FACTS_SECONDS", 0)
    engine = engine_of(EndedElsewhere(), monkeypatch, agent=agent)

    assert seen(engine) == (ReplicaState.EXITED, False)


def test_the_use_of_a_run_is_what_the_agent_of_its_machine_says(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(EndedElsewhere(), monkeypatch, agent=AGENT)
    used = Usage(cpu_seconds=1.0, memory_bytes=2)
    engine.facts.tell("n1", MachineFacts(out_of_memory={}, usage={"container": used}))
    assert engine.read_usage("service") is None

    engine.observe()

    found = engine.read_usage("service")
    assert found is not None
    assert (found.cpu_seconds, found.memory_bytes) == (1.0, 2)


class Running(Manager):
    """A swarm with one running replica, which an observation may not have shown yet."""

    def __init__(self) -> None:
        super().__init__()
        self.listed = 0

    def services(self, _job_uid: str = "") -> list[dict[str, Any]]:
        return [{"ID": "service", "Spec": {"Labels": replica_labels("service", LAUNCH)}}]

    def networks(self) -> list[dict[str, Any]]:
        return []

    def runs(self, service_ids: list[str]) -> dict[str, Run | None]:
        self.phase = TaskPhase.RUNS
        return {
            key: replace(run, container_id="container") if run else None
            for key, run in super().runs(service_ids).items()
        }

    def tasks(self) -> list[dict[str, Any]]:
        self.listed += 1
        return [
            {
                "NodeID": "n1",
                "Status": {"State": "running", "ContainerStatus": {"ContainerID": "container"}},
                "Spec": {"ContainerSpec": {"Labels": replica_labels("service", LAUNCH)}},
            }
        ]


def test_the_job_of_a_container_is_known_on_its_machine_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = Running()
    engine = engine_of(manager, monkeypatch)

    # As soon as it runs, and from then on without a question.
    assert engine.job_on("n1", "container") == LAUNCH.job_uid
    engine.observe()
    assert (engine.job_on("n1", "container"), manager.listed) == (LAUNCH.job_uid, 1)
    assert engine.job_on("n2", "container") is None
    assert engine.job_on("n1", "other") is None
    assert engine.job_on("n1", "") is None


LIMITED = replace(AGENT, egress=Egress(EgressMode.INTERNET))


@pytest.mark.extended
def test_a_replica_starts_only_where_the_agent_has_put_the_rules_in_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manager = Manager()
    engine = engine_of(manager, monkeypatch, agent=LIMITED)
    launch = replace(LAUNCH, machine="n1")
    for told in ("", "of other settings"):
        engine.facts.tell("n1", MachineFacts(out_of_memory={}, usage={}, egress=told))
        with pytest.raises(EngineUnavailable, match="machine one takes no replica: its agent has not put"):
            engine.start_replica(launch)
        with pytest.raises(EngineUnavailable, match="no machine of the swarm limits what jobs reach yet"):
            engine.hosts()
    with pytest.raises(EngineUnavailable, match="machine unknown takes no replica"):
        engine.start_replica(LAUNCH)
    assert manager.made == 0

    assert LIMITED.egress
    engine.facts.tell("n1", MachineFacts(out_of_memory={}, usage={}, egress=LIMITED.egress.digest))
    with pytest.raises(StillStarting):
        engine.start_replica(launch)

    assert list(engine.hosts()) == ["n1"]
    assert manager.joined == ["internal network", "way out"]


@pytest.mark.extended
def test_without_a_limit_nothing_is_asked_of_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = Manager()
    engine = engine_of(manager, monkeypatch, agent=AGENT)

    with pytest.raises(StillStarting):
        engine.start_replica(LAUNCH)

    assert list(engine.hosts()) == ["n1"]
    assert manager.joined == ["network"]


def test_what_a_run_has_written_is_what_the_agent_of_its_machine_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = engine_of(EndedElsewhere(), monkeypatch, agent=AGENT)
    most = DiskUse(bytes=1, files=1)
    engine.observe()
    assert engine.read_disk("service", most) is None

    engine.facts.tell("n1", MachineFacts(out_of_memory={}, usage={}, disk={"container": 7}))

    assert engine.read_disk("service", most) == DiskUse(bytes=7)
    assert engine.read_disk("another", most) is None
