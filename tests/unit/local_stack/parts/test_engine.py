"""Whose Docker Engine is used: the one that answers, one that can be started here, or none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from local_stack.errors import EngineMissing, LocalStackError
from local_stack.parts import engine as engines
from local_stack.parts.engine import Engine, _remove_stale_pid_file, answers, connect
from local_stack.processes.packages import PackageInstaller
from tests.support.fakes.stack_workshop import FakeProcesses, make_info, make_workshop


class Machine:
    """What this machine has; a test changes it."""

    def __init__(self) -> None:
        self.programs = {"dockerd", "iptables"}
        self.has_systemd = False
        self.is_root = True
        self.has_engine = False
        self.installed: list[tuple[list[str], bool]] = []

    def install(self, packages: list[str], *, start_services: bool) -> None:
        self.installed.append((packages, start_services))
        self.programs |= {"dockerd", "iptables"}
        self.has_engine = start_services


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(engines, "answers", lambda url: machine.has_engine)
    monkeypatch.setattr(
        engines, "find_program", lambda name: Path("/usr/bin") / name if name in machine.programs else None
    )
    monkeypatch.setattr(engines, "is_systemd_running", lambda: machine.has_systemd)
    monkeypatch.setattr(engines, "_is_root", lambda: machine.is_root)
    monkeypatch.setattr(
        PackageInstaller, "install", lambda installer, *what, **how: machine.install(*what, **how)
    )
    monkeypatch.setattr(PackageInstaller, "refusal", lambda installer: None if machine.is_root else "no root")
    return machine


def make_part(folder: Path, **settings: Any) -> Engine:
    own = {
        "docker_host": None,
        "engine_socket": folder / "docker.sock",
        "engine_exec_root": folder / "exec",
        "engine_pid_file": folder / "docker.pid",
    }
    return Engine(make_workshop(folder, **own | settings))


def test_an_engine_that_answers_is_used_and_left_alone(machine: Machine, tmp_path: Path) -> None:
    machine.has_engine = True
    part = make_part(tmp_path)

    part.prepare()

    assert part.is_healthy()
    assert (list(part.programs()), machine.installed) == ([], [])


def test_an_engine_that_somebody_named_is_not_replaced(machine: Machine, tmp_path: Path) -> None:
    part = make_part(tmp_path, docker_host="tcp://elsewhere:2375")

    with pytest.raises(
        EngineMissing, match=r"DOCKER_HOST=tcp://elsewhere:2375; start it, or unset DOCKER_HOST"
    ):
        part.prepare()


def test_root_starts_one_with_the_folders_of_the_settings(machine: Machine, tmp_path: Path) -> None:
    part = make_part(tmp_path, engine_data_root=tmp_path / "data", engine_arguments=("--debug",))

    part.prepare()
    (program,) = part.programs()

    assert program.command[:3] == ("/usr/bin/dockerd", "--host", f"unix://{tmp_path}/docker.sock")
    assert program.command[-3:] == ("--data-root", f"{tmp_path}/data", "--debug")
    assert program.stop_wait_seconds > 10  # its containers have ten seconds each
    assert machine.installed == []


def test_an_engine_of_our_own_goes_on_to_be_ours(machine: Machine, tmp_path: Path) -> None:
    part = make_part(tmp_path)
    assert isinstance(part.processes, FakeProcesses)
    part.processes.known["engine"] = make_info("engine")
    machine.has_engine = True

    part.prepare()

    assert part.is_ours()
    assert len(part.programs()) == 1


@pytest.mark.parametrize("has_systemd", [True, False])
def test_what_is_missing_is_installed_and_systemd_runs_it_where_it_does(
    machine: Machine, tmp_path: Path, has_systemd: bool
) -> None:
    machine.programs.clear()
    machine.has_systemd = has_systemd
    part = make_part(tmp_path)

    part.prepare()

    assert machine.installed == [(["docker.io", "iptables"], has_systemd)]
    assert len(part.programs()) == (0 if has_systemd else 1)


@pytest.mark.parametrize(
    ("programs", "words"),
    [
        ({"dockerd", "iptables"}, "only root can start one"),
        (set(), "cannot be installed here: no root"),
    ],
)
def test_who_is_not_root_is_told_what_to_do(
    machine: Machine, tmp_path: Path, programs: set[str], words: str
) -> None:
    machine.is_root = False
    machine.programs = programs

    with pytest.raises(EngineMissing, match=f"{words}.* or set DOCKER_HOST"):
        make_part(tmp_path).prepare()


def test_an_address_where_nothing_listens_has_no_engine(tmp_path: Path) -> None:
    url = f"unix://{tmp_path}/absent.sock"

    assert not answers(url)
    with pytest.raises(EngineMissing, match=f"no Docker Engine answers at {url}"):
        connect(url)


@pytest.mark.parametrize("content", ["", "no number", "99999999"])
def test_a_pid_file_of_nobody_keeps_nobody_from_starting(tmp_path: Path, content: str) -> None:
    file = tmp_path / "docker.pid"
    file.write_text(content)

    _remove_stale_pid_file(file, "dockerd")
    _remove_stale_pid_file(tmp_path / "absent.pid", "dockerd")

    assert file.exists() is not content.isdigit()


def test_a_pid_that_another_program_has_by_now_is_stale(tmp_path: Path) -> None:
    file = tmp_path / "docker.pid"
    file.write_text(f"{os.getpid()}\n")

    _remove_stale_pid_file(file, "dockerd")

    assert not file.exists()


def test_an_engine_that_runs_on_another_socket_is_said_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "docker.pid"
    file.write_text(str(os.getpid()))
    monkeypatch.setattr(psutil.Process, "name", lambda process: "dockerd")

    with pytest.raises(LocalStackError, match="set DOCKER_HOST to the socket on which it listens"):
        _remove_stale_pid_file(file, "dockerd")

    assert file.exists()
