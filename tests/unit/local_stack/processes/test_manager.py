"""
Programs under a supervisord: started once, started again, stopped, and their logs.

A test plays the supervisord.
"""

from __future__ import annotations

import stat
import subprocess
import sys
import xmlrpc.client as xmlrpc
from pathlib import Path
from typing import Any

import pytest
from supervisor.states import ProcessStates, getProcessStateDescription
from supervisor.xmlrpc import Faults

from local_stack.errors import LocalStackError, PartFailed
from local_stack.processes import manager
from local_stack.processes.manager import ProcessManager, Started
from local_stack.processes.supervisor_config import OWNER_VARIABLE, Program
from tests.support.waiting import wait_until

REGISTRY = Program(name="registry", command=("docker-registry", "serve"))


class Supervisord:
    """Stands for supervisord: programs by name with their state; it is up once it was started."""

    def __init__(self) -> None:
        self.is_up = False
        self.programs: dict[str, int] = {}
        self.calls: list[str] = []
        self.refuses_start = False
        self.stops_slowly = False

    def run(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[1:3] == ["-m", "supervisor.supervisord"]
        self.is_up = not self.refuses_start
        return subprocess.CompletedProcess(command, int(self.refuses_start), "", "bad configuration")

    def call(self, method: str, *arguments: Any) -> Any:
        if not self.is_up:
            raise ConnectionRefusedError
        if method not in ("getState", "getAllProcessInfo"):
            self.calls.append(" ".join([method, *(str(each) for each in arguments[:1])]))
        return getattr(self, f"_{method}", lambda *_: True)(*arguments)

    def _getAllProcessInfo(self) -> list[dict[str, Any]]:  # noqa: N802  # supervisord's name
        return [
            {
                "name": name,
                "state": state,
                "statename": getProcessStateDescription(state),
                "pid": 4321 if state in (ProcessStates.RUNNING, ProcessStates.STOPPING) else 0,
            }
            for name, state in self.programs.items()
        ]

    def _addProcessGroup(self, name: str) -> None:  # noqa: N802
        self.programs[name] = ProcessStates.STOPPED

    def _removeProcessGroup(self, name: str) -> None:  # noqa: N802
        del self.programs[name]

    def _startProcess(self, name: str, wait: bool) -> None:  # noqa: N802
        assert not wait
        if self.programs[name] == ProcessStates.RUNNING:
            raise xmlrpc.Fault(Faults.ALREADY_STARTED, name)
        if name == "absent":
            raise xmlrpc.Fault(Faults.NO_FILE, "can't find command")
        if name == "short":
            self.programs[name] = ProcessStates.BACKOFF
            raise xmlrpc.Fault(Faults.SPAWN_ERROR, name)
        self.programs[name] = ProcessStates.RUNNING

    def _stopProcess(self, name: str, wait: bool = True) -> None:  # noqa: N802
        if name not in self.programs:
            raise xmlrpc.Fault(Faults.BAD_NAME, name)
        if self.programs[name] != ProcessStates.RUNNING:
            raise xmlrpc.Fault(Faults.NOT_RUNNING, name)
        self.programs[name] = ProcessStates.STOPPING if self.stops_slowly else ProcessStates.STOPPED


@pytest.fixture
def supervisord(monkeypatch: pytest.MonkeyPatch) -> Supervisord:
    supervisord = Supervisord()
    monkeypatch.setattr(manager.subprocess, "run", supervisord.run)
    monkeypatch.setattr(ProcessManager, "_call", lambda self, *arguments: supervisord.call(*arguments))
    monkeypatch.setattr(manager, "POLL_SECONDS", 0.0)
    return supervisord


@pytest.fixture
def processes(supervisord: Supervisord, tmp_path: Path) -> ProcessManager:
    return ProcessManager(tmp_path, tmp_path / "s.sock", tmp_path / "logs")


def test_a_program_is_started_once(processes: ProcessManager, supervisord: Supervisord) -> None:
    assert not processes.is_running()

    assert processes.start(REGISTRY) is Started.NOW
    assert processes.start(REGISTRY) is Started.ALREADY

    assert supervisord.programs == {"registry": ProcessStates.RUNNING}


def test_a_program_that_ends_before_supervisord_looks_is_left_to_its_retries(
    processes: ProcessManager, supervisord: Supervisord
) -> None:
    assert processes.start(Program(name="short", command=("false",))) is Started.NOW


def test_a_program_that_had_ended_is_started_again(
    processes: ProcessManager, supervisord: Supervisord
) -> None:
    processes.start(REGISTRY)
    supervisord.programs["registry"] = ProcessStates.EXITED
    info = processes.info("registry")
    assert info is not None
    assert (info.is_alive, info.has_given_up) == (False, False), "supervisord starts it again"

    supervisord.programs["registry"] = ProcessStates.FATAL
    info = processes.info("registry")
    assert info is not None
    assert (info.is_alive, info.has_given_up, info.pid) == (False, True, None)

    assert processes.start(REGISTRY) is Started.AGAIN


def test_a_program_that_changed_is_restarted(processes: ProcessManager, supervisord: Supervisord) -> None:
    processes.start(REGISTRY)
    supervisord.calls.clear()

    assert processes.start(Program(name="registry", command=("other",))) is Started.CHANGED

    assert supervisord.calls == [
        "reloadConfig",
        "stopProcess registry",
        "removeProcessGroup registry",
        "addProcessGroup registry",
        "startProcess registry",
    ]


def test_what_a_program_is_told_is_for_its_owner_alone(processes: ProcessManager, tmp_path: Path) -> None:
    processes.start(Program(name="registry", command=("x",), environment={"PASSWORD": "secret"}))

    file = tmp_path / "programs" / "registry.conf"
    assert "secret" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_new_supervisord_knows_none_of_the_programs_of_before(
    processes: ProcessManager, tmp_path: Path
) -> None:
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "old.conf").touch()

    processes.ensure_running()
    processes.ensure_running()

    assert list((tmp_path / "programs").iterdir()) == []


def test_a_program_that_cannot_be_started_fails_by_its_name(processes: ProcessManager) -> None:
    with pytest.raises(PartFailed, match="absent cannot be started: can't find command"):
        processes.start(Program(name="absent", command=("absent",)))


def test_a_supervisord_that_does_not_start_says_why(
    processes: ProcessManager, supervisord: Supervisord
) -> None:
    supervisord.refuses_start = True

    with pytest.raises(LocalStackError, match="supervisord did not start: bad configuration"):
        processes.start(REGISTRY)


def test_stopping_what_does_not_run_is_no_mistake(
    processes: ProcessManager, supervisord: Supervisord
) -> None:
    processes.start(REGISTRY)

    processes.stop("registry")
    processes.stop("registry")
    processes.stop("never-known")

    assert supervisord.programs == {"registry": ProcessStates.STOPPED}


def test_only_the_named_programs_stop_and_those_that_ran_are_counted(
    processes: ProcessManager, supervisord: Supervisord
) -> None:
    for name in ("registry", "training", "airflow"):
        processes.start(Program(name=name, command=("x",)))
    processes.stop("training")

    assert processes.stop_all({"registry", "training", "never-known"}) == 1
    assert processes.stop_all({"registry"}) == 0
    assert supervisord.programs["airflow"] == ProcessStates.RUNNING


def test_a_program_that_does_not_stop_is_named(
    processes: ProcessManager, supervisord: Supervisord, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.start(REGISTRY)
    supervisord.stops_slowly = True
    monkeypatch.setattr(manager, "STOP_TIMEOUT_SECONDS", 0.0)

    with pytest.raises(LocalStackError, match="registry still run"):
        processes.stop_all({"registry"})


def test_without_a_supervisord_nothing_runs(processes: ProcessManager) -> None:
    assert processes.all() == {}
    assert not processes.shut_down()


def test_what_a_killed_supervisord_left_behind_is_ended(processes: ProcessManager, tmp_path: Path) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    # Not by the module's own subprocess.run, which the fixture plays.
    mine = subprocess.Popen(sleep, env={OWNER_VARIABLE: str(tmp_path)})
    others = subprocess.Popen(sleep, env={OWNER_VARIABLE: f"{tmp_path}/other"})
    try:
        wait_until(lambda: processes.end_leftovers() == 1, "the leftover is found")

        assert mine.wait(timeout=60) is not None
        assert others.poll() is None
    finally:
        for process in (mine, others):
            process.kill()
            process.wait()


@pytest.mark.parametrize(("size", "tail"), [(4, "end\n"), (100, "the end\n")])
def test_the_end_of_a_log_is_shown(processes: ProcessManager, tmp_path: Path, size: int, tail: str) -> None:
    (tmp_path / "logs").mkdir()
    processes.log_of("registry").write_text("the end\n")

    assert processes.log_tail("registry", size) == tail
    assert processes.log_tail("absent") == ""


def test_a_log_that_is_cut_within_a_letter_is_shown_all_the_same(
    processes: ProcessManager, tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    processes.log_of("registry").write_bytes("ü!".encode())

    assert processes.log_tail("registry", 2) == "�!"
