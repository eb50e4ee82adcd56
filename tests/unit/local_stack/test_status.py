"""What runs, where, since when: the table that a person reads."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local_stack.errors import EngineMissing
from local_stack.machines.swarm import Machine
from local_stack.parts.machines import Machines
from local_stack.parts.part import StackPart
from local_stack.settings import Part
from local_stack.status import print_status, program_use, swarm_machines, what_stays
from tests.support.fakes.stack_workshop import FakeProcesses, make_info, make_workshop


class PartWith(StackPart):
    """A part that answers as a test says."""

    name = Part.REGISTRY

    def __init__(
        self, folder: Path, name: Part, *, healthy: bool = True, error: Exception | None = None
    ) -> None:
        super().__init__(make_workshop(folder))
        self.name = name  # type: ignore[misc]
        self._healthy, self._error = healthy, error

    def address(self) -> str:
        if self._error:
            raise self._error
        return f"at-{self.name}"

    def is_healthy(self) -> bool:
        if self._error:
            raise self._error
        return self._healthy


def make_stack(folder: Path, *parts: PartWith, alive: tuple[str, ...] = (), engine: Any = None) -> Any:
    processes = FakeProcesses(folder)
    processes.known = {name: make_info(name, pid=os.getpid()) for name in alive}
    return SimpleNamespace(
        processes=processes,
        parts={part.name: part for part in parts},
        engine=engine or SimpleNamespace(describe=lambda: "Docker Engine 27"),
        settings=SimpleNamespace(state_dir=folder),
    )


def rows(output: str) -> dict[str, str]:
    """Return the rest of each row by the name of its part."""
    split = [line.split(None, 1) for line in output.splitlines() if line.strip()]
    return {parts[0]: parts[1].strip() for parts in split if len(parts) == 2}


def test_a_program_that_runs_has_age_and_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = make_stack(tmp_path, PartWith(tmp_path, Part.REGISTRY), alive=("registry",))

    assert print_status(stack)

    row = rows(capsys.readouterr().out)["registry"]
    assert row.startswith("at-registry")
    assert "healthy" in row
    assert str(os.getpid()) in row
    assert row.endswith("MiB")


def test_a_program_that_does_not_answer_makes_the_whole_unhealthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [PartWith(tmp_path, Part.REGISTRY, healthy=False), PartWith(tmp_path, Part.TRAINING)]
    stack = make_stack(tmp_path, *parts, alive=("registry", "training"))

    assert not print_status(stack)

    assert "running, not healthy" in rows(capsys.readouterr().out)["registry"]


def test_what_this_stack_does_not_run_is_down_or_somebody_elses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [PartWith(tmp_path, Part.ENGINE), PartWith(tmp_path, Part.REGISTRY, healthy=False)]

    assert print_status(make_stack(tmp_path, *parts))

    shown = rows(capsys.readouterr().out)
    assert shown["engine"].endswith("healthy (not ours)")
    assert shown["registry"].endswith("down")


def test_a_program_that_gave_up_is_shown_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stack = make_stack(tmp_path, PartWith(tmp_path, Part.REGISTRY, healthy=False))
    stack.processes.known["registry"] = make_info("registry", is_alive=False)

    assert not print_status(stack)

    assert rows(capsys.readouterr().out)["registry"].endswith("fatal")


def test_without_an_engine_the_table_is_there_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = EngineMissing("no Docker Engine answers")

    def describe() -> str:
        raise missing

    stack = make_stack(
        tmp_path,
        PartWith(tmp_path, Part.OBJECT_STORE, error=missing),
        engine=SimpleNamespace(describe=describe),
    )

    print_status(stack)

    output = capsys.readouterr().out
    assert "unknown: the engine does not answer" in output
    assert "\nno Docker Engine answers\n" in output
    assert f"state and logs: {tmp_path}" in output


def test_the_use_of_a_program_is_that_of_now_and_of_one_that_is_gone_there_is_none() -> None:
    use = program_use(os.getpid())

    assert use is not None
    assert use.memory_bytes > 2**20
    assert use.uptime_seconds > 0
    assert program_use(2**22 + 1) is None


class MachinesWith(Machines):
    """The part of other machines, with those of a test."""

    def __init__(self, folder: Path, *found: Machine, **settings: Any) -> None:
        super().__init__(make_workshop(folder, require_auth=True, **settings))
        self._found = found

    def is_healthy(self) -> bool:
        return True

    def machines(self) -> list[Machine]:
        if not self._found:
            raise EngineMissing("no Docker Engine answers")
        return list(self._found)


def make_machine(name: str, *, state: str = "ready", is_manager: bool = False) -> Machine:
    return Machine(
        node_id=name,
        name=name,
        address="10.0.0.5",
        state=state,
        availability="active",
        is_manager=is_manager,
        cpus=2,
        memory_bytes=3 << 30,
        engine_version="27.1.1",
    )


def test_machines_of_the_swarm_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machines = (make_machine("first", is_manager=True), make_machine("second", state="down"))
    part = MachinesWith(tmp_path, *machines, advertise_address="10.0.0.5")

    print_status(make_stack(tmp_path, part))  # type: ignore[arg-type]

    shown = rows(capsys.readouterr().out)
    assert shown["first"].split() == [
        *["10.0.0.5", "manager", "ready", "active", "2", "3.0", "GiB", "27.1.1"]
    ]
    assert shown["second"].split()[1:4] == ["worker", "down", "active"]


@pytest.mark.parametrize(
    ("has_engine", "says"), [(True, "still manages"), (False, "is stopped, with 1 other")]
)
def test_what_stays_after_down_names_the_machines(has_engine: bool, says: str) -> None:
    machines = (make_machine("first", is_manager=True), make_machine("second"))

    (line,) = what_stays(machines, has_engine=has_engine)

    assert says in line
    assert "with 1 other machine (second)" in line
    assert "docker swarm leave --force" in line


def test_a_stack_on_loopback_shows_no_machines_and_leaves_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = make_stack(tmp_path, MachinesWith(tmp_path, make_machine("first", is_manager=True)))  # type: ignore[arg-type]

    print_status(stack)

    assert "machine" not in capsys.readouterr().out
    assert swarm_machines(stack) == []
    assert what_stays([], has_engine=True) == []


def test_without_an_engine_no_machine_is_known(tmp_path: Path) -> None:
    part = MachinesWith(tmp_path, advertise_address="10.0.0.5")

    assert swarm_machines(make_stack(tmp_path, part)) == []  # type: ignore[arg-type]
