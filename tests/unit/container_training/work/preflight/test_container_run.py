"""The local test run on a played engine: its output, its ends, and nothing left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from container_engines.docker.driver import DockerDriver
from container_training.work.images.engine import OWNER_LABEL, Cancellation
from container_training.work.preflight.container_run import RunLimits, run_container
from tests.support.fakes.docker_api import FakeDocker, Program, run_fake_docker
from tests.support.speed import scaled
from training_api.errors import EngineBusy, ImageNotFound, ImageTestFailed, InvalidJobSpec

IMAGE = "trainer:1"


@pytest.fixture
def engine() -> Iterator[FakeDocker]:
    with run_fake_docker() as engine:
        yield engine
        assert engine.containers == {}


def run(engine: FakeDocker, program: Program | None, **arguments: Any) -> list[tuple[str, str]]:
    """Return the output of a run that goes well."""
    lines: list[tuple[str, str]] = []
    if program is not None:
        engine.images[IMAGE] = program
    client = engine.client()
    try:
        run_container(
            client,
            IMAGE,
            ["--epochs", "1"],
            **{
                "limits": RunLimits(timeout_seconds=60),
                "on_output": lambda stream, line: lines.append((stream, line)),
                "owner": "me",
                **arguments,
            },
        )
    finally:
        client.close()
    return lines


def test_each_line_is_handed_on_once_with_its_stream(engine: FakeDocker) -> None:
    program = Program(lines=((1, "1%\r50%\r100%"), (2, "careful"), (1, "done")), exit_code=0)

    lines = run(engine, program, environment={"A": "b"}, hostname="master-0")

    assert lines == [("stdout", "100%"), ("stderr", "careful"), ("stdout", "done")]
    (made,) = engine.made
    assert (made["Cmd"], made["Env"], made["Hostname"]) == (["--epochs", "1"], ["A=b"], "master-0")
    assert made["Labels"] == {OWNER_LABEL: "me"}


@pytest.mark.parametrize(
    ("program", "limits", "message"),
    [
        (
            Program(lines=((1, "so far"),), exit_code=3),
            {"timeout_seconds": 60},
            r"trainer:1 exited with 3; its last output:\n    so far$",
        ),
        (
            Program(exit_code=137, out_of_memory=True),
            {"timeout_seconds": 60, "memory_bytes": 2**26},
            r"ran out of memory \(exit code 137, limit 64 MiB\); no output$",
        ),
        (
            Program(lines=((1, "waiting"),)),
            {"timeout_seconds": 0.2},
            r"time limit of 0\.2 s, and was killed; its last output:\n    waiting$",
        ),
    ],
)
def test_a_bad_end_says_how_and_shows_the_last_lines(
    engine: FakeDocker, program: Program, limits: dict[str, Any], message: str
) -> None:
    with pytest.raises(ImageTestFailed, match=message):
        run(engine, program, limits=RunLimits(**limits))


def test_a_container_whose_time_is_over_before_it_has_started_is_killed_too(
    engine: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, kill, was_killed = DockerDriver.start, DockerDriver.kill, threading.Event()

    def killing(driver: DockerDriver, container: str) -> None:
        try:
            kill(driver, container)
        finally:
            was_killed.set()

    def starting(driver: DockerDriver, container: str) -> None:
        assert was_killed.wait(scaled(60))
        start(driver, container)

    monkeypatch.setattr(DockerDriver, "kill", killing)
    monkeypatch.setattr(DockerDriver, "start", starting)

    with pytest.raises(ImageTestFailed, match=r"time limit of 0\.01 s, and was killed; .*\n    waiting$"):
        run(engine, Program(lines=((1, "waiting"),)), limits=RunLimits(timeout_seconds=0.01))


def test_a_cancel_from_within_the_reading_removes_the_container(engine: FakeDocker) -> None:
    cancellation = Cancellation()

    with pytest.raises(ImageTestFailed, match=r"the run of trainer:1 was cancelled"):
        run(
            engine,
            Program(lines=((1, "up"),)),
            cancellation=cancellation,
            on_output=lambda *_: cancellation.cancel(),
        )


def test_what_an_earlier_attempt_left_is_removed_first(engine: FakeDocker) -> None:
    engine.refusals["DELETE containers"] = (500, "the first attempt is killed before it can remove anything")
    with pytest.raises(EngineBusy):
        run(engine, Program(exit_code=0))
    engine.refusals.clear()

    run(engine, Program(exit_code=0))

    assert len(engine.made) == 2


@pytest.mark.parametrize(
    ("refusals", "expected"),
    [
        ({"POST containers/6d": (400, 'exec: "x": executable file not found')}, ImageTestFailed),
        ({"POST containers/6d": (500, "of this nothing is known")}, EngineBusy),
        ({"POST containers/create": (500, "of this nothing is known")}, EngineBusy),
    ],
)
def test_a_start_that_the_image_is_to_blame_for_is_told_from_one_that_may_go_well_later(
    engine: FakeDocker, refusals: dict[str, tuple[int, str]], expected: type[Exception]
) -> None:
    engine.refusals |= refusals

    with pytest.raises(expected):
        run(engine, Program(exit_code=0))


def test_an_image_that_is_not_there_is_named(engine: FakeDocker) -> None:
    with pytest.raises(ImageNotFound, match="No such image: trainer:1"):
        run(engine, None)


@pytest.mark.parametrize("limits", [{"timeout_seconds": 0}, {"timeout_seconds": 1, "pids": 0}])
def test_limits_that_leave_nothing_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(InvalidJobSpec, match="must be"):
        RunLimits(**limits)  # type: ignore[arg-type]
