"""
The identity of a test run, what it owns, and when it is over.

Each process here is a run, or part of one.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.ports import port_range, reserve_port
from tests.support.run_id import RUN_VARIABLE, STATE_VARIABLE, Run, current_run, exclusive
from tests.support.speed import scaled

JOIN = "from tests.support.run_id import current_run; run = current_run();"
STAY = "print('ready', flush=True); import time; time.sleep(60)"

Start = Callable[[str, str], subprocess.Popen[str]]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def start(state: Path) -> Iterator[Start]:
    """Start a process of the run ``run_id`` that executes ``program``; kill all at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(run_id: str, program: str) -> subprocess.Popen[str]:
        environment = os.environ | {RUN_VARIABLE: run_id, STATE_VARIABLE: str(state)}
        command = [sys.executable, "-c", program]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        with process:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextmanager
def environment(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Iterator[None]:
    with monkeypatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


def test_children_are_part_of_the_run() -> None:
    program = f"{JOIN} print(run.id)"

    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert done.stdout.strip() == current_run().id == os.environ[RUN_VARIABLE]


@pytest.mark.parametrize("run_id", ["", "Upper", "a-b", "a" * 17, "a/b"])
def test_an_id_that_fits_no_image_name_is_refused(state: Path, run_id: str) -> None:
    with pytest.raises(ValueError, match=r"TESTS_RUN_ID must have 1 to 16 .* got"):
        Run(run_id, state)


def test_what_a_run_has_claimed_no_other_run_gets(state: Path, start: Start) -> None:
    claim = f"{JOIN} print(run.claim('port', '20001'), flush=True); import time; time.sleep(60)"

    first = line_of(start("one", claim))
    second = line_of(start("two", claim))

    assert (first, second) == ("True", "False")


def test_a_run_without_an_engine_leaves_no_record(state: Path, start: Start) -> None:
    program = f"{JOIN} run.claim('port', '20001'); run.make_folder('x')"

    start("one", program).wait(scaled(60))

    assert [path.name for path in state.iterdir()] == ["claims"]
    assert list((state / "claims").iterdir()) == []


def test_the_record_stays_until_the_runs_last_process_ends(state: Path, start: Start) -> None:
    longer = start("one", JOIN + STAY)
    line_of(longer)
    start("one", JOIN).wait(scaled(60))
    meanwhile = (state / "one" / "lock").exists()

    longer.send_signal(signal.SIGINT)
    longer.wait(scaled(60))

    assert meanwhile
    assert not (state / "one").exists()


def test_a_killed_runs_claims_stay_until_somebody_has_cleaned_up_after_it(state: Path, start: Start) -> None:
    killed = start("one", f"{JOIN} run.claim('port', '20001'); {STAY}")
    line_of(killed)
    killed.kill()
    killed.wait()

    assert line_of(start("two", f"{JOIN} print(run.claim('port', '20001'))")) == "False"


def test_a_reserved_port_is_no_outgoing_connections(state: Path) -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())

    ports = {reserve_port() for _ in range(20)}

    assert len(ports) == 20
    assert all(port in port_range() and not first <= port <= last for port in ports)


def test_processes_at_once_reserve_different_ports(start: Start) -> None:
    reserve = (
        f"from tests.support.ports import reserve_port; print(*[reserve_port() for _ in range(200)]); {STAY}"
    )

    processes = [start(f"r{number}", reserve) for number in range(3)]
    answers = [line_of(process).split() for process in processes]

    ports = [port for answer in answers for port in answer]
    assert len(set(ports)) == len(ports) == 600


def test_only_one_process_of_all_runs_is_in_an_exclusive_block(
    state: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter = "from tests.support.run_id import exclusive\nwith exclusive('gpu'): print('in', flush=True)"
    with environment(monkeypatch, **{STATE_VARIABLE: str(state)}), exclusive("gpu"):
        other = start("two", enter)
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(1)

    assert line_of(other) == "in"


def test_images_of_another_process_are_not_own() -> None:
    run = current_run()
    port = reserve_port()

    assert run.owns_image(run.image("python:1"))
    assert run.owns_image(f"127.0.0.1:{port}/p/x:1")
    assert run.owns_image(f"localhost:{port}/p/x@sha256:0")
    assert not run.owns_image(f"localhost/{run.id}/another/python:1")
    assert not run.owns_image("localhost/container-training/runtime:1")
    assert not run.owns_image("127.0.0.1:5000/p/x:1")
