"""Parts come up in order, each once the one before is healthy, and go down again."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from local_stack import stack as stacks
from local_stack.errors import PartFailed, PortTaken
from local_stack.parts.part import Listener, StackPart, Workshop
from local_stack.processes.progress import Progress
from local_stack.processes.supervisor_config import Program
from local_stack.settings import Part, StackSettings
from local_stack.stack import LocalStack
from tests.support.fakes.stack_workshop import FakeProcesses, make_info, said


class PlainPart(StackPart):
    """A part with one program, which is healthy after a few looks."""

    looks_until_healthy = 0
    port: int | None = None

    def __init__(self, workshop: Workshop) -> None:
        super().__init__(workshop)
        self.acts: list[str] = []

    def address(self) -> str:
        return f"address of {self.name}"

    def is_healthy(self) -> bool:
        self.looks_until_healthy -= 1
        return self.looks_until_healthy < 0

    @contextmanager
    def start_lock(self) -> Iterator[None]:
        self.acts.append("lock")
        yield
        self.acts.append("unlock")

    def prepare(self) -> None:
        self.acts.append("prepare")

    def programs(self) -> Sequence[Program]:
        return [Program(name=self.name.value, command=("x",))]

    def listeners(self) -> Sequence[Listener]:
        return [] if self.port is None else [Listener(host="127.0.0.1", port=self.port, setting="PORT")]

    def complete(self) -> None:
        self.acts.append("complete")


def kind_of(part: Part) -> type[PlainPart]:
    return type(part.name.title(), (PlainPart,), {"name": part})


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStack:
    """A stack of plain parts."""
    monkeypatch.setattr(stacks, "_PARTS", {part: kind_of(part) for part in Part})
    monkeypatch.setattr(stacks, "ProcessManager", lambda state_dir, socket, log_dir: FakeProcesses(log_dir))
    monkeypatch.setattr(stacks, "POLL_SECONDS", 0.0)
    settings = StackSettings(state_dir=tmp_path / "state", health_timeout_seconds=5)
    return LocalStack(settings, Progress(stream=io.StringIO()))


def processes_of(stack: LocalStack) -> FakeProcesses:
    assert isinstance(stack.processes, FakeProcesses)
    return stack.processes


def part_of(stack: LocalStack, part: Part) -> PlainPart:
    found = stack.parts[part]
    assert isinstance(found, PlainPart)
    return found


def test_parts_come_up_in_their_order_whatever_the_order_of_the_question(stack: LocalStack) -> None:
    stack.up([Part.TRAINING, Part.ENGINE, Part.REGISTRY])

    assert processes_of(stack).acts == ["end leftovers", "start engine", "start registry", "start training"]
    assert stack.running() == {Part.ENGINE, Part.REGISTRY, Part.TRAINING}


def test_a_part_is_prepared_and_completed_under_its_own_lock(stack: LocalStack) -> None:
    stack.up([Part.REGISTRY])

    assert part_of(stack, Part.REGISTRY).acts == ["lock", "prepare", "complete", "unlock"]
    assert any(
        line.startswith("registry: healthy at address of registry after") for line in said(stack.progress)
    )


def test_a_second_time_nothing_is_started_and_nothing_said(stack: LocalStack) -> None:
    stack.up([Part.REGISTRY])
    lines = said(stack.progress)

    stack.up([Part.REGISTRY])

    assert processes_of(stack).acts.count("start registry") == 1
    assert said(stack.progress) == lines


def test_a_part_that_takes_its_time_is_waited_for(stack: LocalStack) -> None:
    part_of(stack, Part.REGISTRY).looks_until_healthy = 5

    stack.up([Part.REGISTRY])

    assert "complete" in part_of(stack, Part.REGISTRY).acts


def test_a_part_that_is_not_healthy_in_time_fails_with_the_end_of_its_log(
    stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    part_of(stack, Part.REGISTRY).looks_until_healthy = 10**9
    monkeypatch.setattr(stack, "settings", stack.settings.model_copy(update={"health_timeout_seconds": 1e-9}))

    with pytest.raises(PartFailed, match=r"registry is not healthy after 0 s.*\n.*last words of registry"):
        stack.up([Part.ENGINE, Part.REGISTRY, Part.TRAINING])

    assert stack.running() == {Part.ENGINE, Part.REGISTRY}, "what came up stays up, and no more comes up"


def test_a_program_that_ends_at_each_start_fails_at_once(stack: LocalStack) -> None:
    part_of(stack, Part.REGISTRY).looks_until_healthy = 10**9
    processes_of(stack).dies.add("registry")

    with pytest.raises(PartFailed, match="registry ended right after each start"):
        stack.up([Part.REGISTRY])


def test_a_port_that_somebody_has_is_said_before_anything_starts(stack: LocalStack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        part_of(stack, Part.REGISTRY).port = taken.getsockname()[1]

        with pytest.raises(PortTaken, match="PORT"):
            stack.up([Part.REGISTRY])

    assert "start registry" not in processes_of(stack).acts


def test_the_port_of_a_part_that_runs_is_its_own(stack: LocalStack) -> None:
    stack.up([Part.REGISTRY])

    with socket.create_server(("127.0.0.1", 0)) as its_own:
        part_of(stack, Part.REGISTRY).port = its_own.getsockname()[1]
        stack.up([Part.REGISTRY])


def test_what_others_stand_on_goes_down_last_and_the_supervisor_with_it(stack: LocalStack) -> None:
    stack.up(list(Part))

    assert stack.down()

    stops = [act for act in processes_of(stack).acts if act.startswith(("stop", "shut"))]
    assert stops == [
        "stop airflow base-image machines object-store registry training",
        "stop database engine",
        "shut down",
    ]


def test_a_program_of_an_older_version_is_stopped(stack: LocalStack) -> None:
    processes_of(stack).known["relay"] = make_info("relay", is_alive=True)

    stack.up([Part.REGISTRY])

    assert processes_of(stack).acts[:3] == ["end leftovers", "stop relay", "start registry"]


def test_while_a_part_is_up_the_supervisor_stays(stack: LocalStack) -> None:
    stack.up([Part.ENGINE, Part.REGISTRY])

    assert stack.down([Part.REGISTRY])

    assert stack.running() == {Part.ENGINE}
    assert "shut down" not in processes_of(stack).acts


def test_where_there_never_was_a_stack_nothing_goes_down_and_no_folder_is_made(stack: LocalStack) -> None:
    assert not stack.down()
    assert not stack.settings.state_dir.exists()


def test_a_stack_within_a_block_goes_down_with_it_also_after_an_error(stack: LocalStack) -> None:
    def use() -> None:
        with stack:
            stack.up([Part.REGISTRY])
            raise KeyError("test")

    with pytest.raises(KeyError):
        use()

    assert stack.running() == frozenset()
