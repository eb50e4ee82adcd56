"""``python -m local_stack``: its commands, and how their ends and errors look."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local_stack import __main__ as command_line
from local_stack.errors import LocalStackError
from local_stack.settings import ALL_PARTS, SERVE_PARTS, Part, StackSettings


class Stack:
    """Stands for the stack: keeps what it was asked to do."""

    def __init__(self, settings: StackSettings) -> None:
        self.settings = settings
        self.parts_up: set[Part] = set()
        self.acts: list[str] = []
        self.error: BaseException | None = None

    def up(self, parts: Collection[Part]) -> None:
        self.acts.append(f"up {' '.join(sorted(parts))}")
        if self.error is not None:
            raise self.error
        self.parts_up |= set(parts)

    def down(self, parts: Collection[Part] = ALL_PARTS) -> bool:
        self.acts.append(f"down {' '.join(sorted(parts))}")
        was_up = bool(self.parts_up)
        self.parts_up -= set(parts)
        return was_up

    def running(self) -> frozenset[Part]:
        return frozenset(self.parts_up)


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    stack = Stack(StackSettings(state_dir=tmp_path, docker_host="unix:///absent.sock"))
    monkeypatch.setattr(command_line, "LocalStack", lambda settings: stack)
    monkeypatch.setattr(command_line, "print_status", lambda stack: True)
    monkeypatch.setattr(command_line, "swarm_machines", lambda stack: [])
    monkeypatch.setattr(
        command_line, "bring_up_test_bed", lambda stack: stack.up([Part.ENGINE, Part.BASE_IMAGE])
    )
    return stack


@pytest.fixture
def is_only_user(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether nobody else uses the engine; a test changes it."""
    answer = [True]

    @contextmanager
    def engine_in_use(url: str) -> Iterator[Any]:
        yield lambda: answer[0]

    monkeypatch.setattr(command_line, "engine_in_use", engine_in_use)
    return answer


@pytest.mark.parametrize(("command", "parts"), [("serve", SERVE_PARTS), ("up", ALL_PARTS)])
def test_a_command_brings_its_parts_up(stack: Stack, command: str, parts: tuple[Part, ...]) -> None:
    assert command_line.main([command]) == 0

    assert stack.parts_up == set(parts)


def test_down_says_whether_anything_ran(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    stack.parts_up = {Part.REGISTRY}

    assert [command_line.main(["down"]) for _ in range(2)] == [0, 0]

    assert capsys.readouterr().out == "stopped\nnothing was running\n"


def test_a_status_that_is_not_healthy_is_an_exit_status(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command_line.main(["status"]) == 0
    monkeypatch.setattr(command_line, "print_status", lambda stack: False)
    assert command_line.main(["status"]) == 1


def test_an_error_is_one_message(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    stack.error = LocalStackError("no Docker Engine answers")

    assert command_line.main(["up"]) == 1

    assert capsys.readouterr() == ("", "error: no Docker Engine answers\n")


def test_an_interrupt_leaves_what_is_up(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    stack.error = KeyboardInterrupt()

    assert command_line.main(["up"]) == 130

    assert "`make down` stops it" in capsys.readouterr().err


def test_a_setting_that_is_none_is_named_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOCAL_STACK_REGISTRY_PORT", "many")

    assert command_line.main(["status"]) == 1

    assert capsys.readouterr().err.startswith("error: LOCAL_STACK_REGISTRY_PORT: ")


def test_a_test_bed_leaves_what_was_there_before_and_takes_down_what_it_brought_up(
    stack: Stack, is_only_user: list[bool]
) -> None:
    stack.parts_up = {Part.ENGINE}

    status = command_line.main(["test-bed", sys.executable, "-c", "raise SystemExit(7)"])

    assert status == 7
    assert stack.acts[-1] == "down base-image"
    assert stack.parts_up == {Part.ENGINE}


def test_an_engine_that_others_use_stays_up(
    stack: Stack, is_only_user: list[bool], capsys: pytest.CaptureFixture[str]
) -> None:
    is_only_user[0] = False

    command_line.main(["test-bed", sys.executable, "-c", ""])

    assert stack.parts_up == {Part.ENGINE}
    assert "other tests use the engine" in capsys.readouterr().err


def test_a_test_bed_without_a_command_stays_up(stack: Stack, is_only_user: list[bool]) -> None:
    assert command_line.main(["test-bed"]) == 0

    assert stack.parts_up == {Part.ENGINE, Part.BASE_IMAGE}


def test_a_test_bed_whose_start_fails_is_taken_down(stack: Stack, is_only_user: list[bool]) -> None:
    stack.error = LocalStackError("no image")

    assert command_line.main(["test-bed", "true"]) == 1

    assert stack.parts_up == set()


def test_the_join_command_alone_is_on_standard_output(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machines = SimpleNamespace(join_command=lambda: SimpleNamespace(script=lambda: "sh <<'JOIN'\nJOIN"))
    monkeypatch.setattr(stack, "machines", machines, raising=False)

    assert command_line.main(["join-command"]) == 0

    printed = capsys.readouterr()
    assert printed.out == "sh <<'JOIN'\nJOIN\n"
    assert "good once, within 30 minutes" in printed.err


def test_down_says_what_it_leaves(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_line, "swarm_machines", lambda stack: [SimpleNamespace(is_manager=True)])
    engine = SimpleNamespace(is_healthy=lambda: True)
    monkeypatch.setattr(stack, "engine", engine, raising=False)

    command_line.main(["down"])

    said = capsys.readouterr().out
    assert said.startswith("nothing was running\nthe engine still manages its swarm, with 0 other machines;")
