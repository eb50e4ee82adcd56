"""The processes of one local stack: a supervisord of its own, controlled over a unix socket."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import xmlrpc.client as xmlrpc  # speaks to our own supervisord over a socket that only we may open
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil
from supervisor.states import RUNNING_STATES, STOPPED_STATES, ProcessStates
from supervisor.xmlrpc import Faults, SupervisorTransport

from local_stack.errors import LocalStackError, PartFailed
from local_stack.processes.supervisor_config import OWNER_VARIABLE, Program, render_main, render_program

START_TIMEOUT_SECONDS = 15.0
STOP_TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.05
LOG_TAIL_BYTES = 2000


class Started(StrEnum):
    """What :meth:`ProcessManager.start` had to do."""

    ALREADY = "already runs"
    NOW = "started"
    AGAIN = "had stopped, started again"
    CHANGED = "restarted with changed settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """One supervised program as supervisord sees it; ``pid`` is None while none runs."""

    name: str
    state: str
    pid: int | None
    is_alive: bool
    has_given_up: bool


@dataclass(frozen=True, slots=True)
class ProcessManager:
    """
    Starts, watches and stops the programs of one state folder.

    :param state_dir: holds the configuration, the socket and the pid file of supervisord.
    """

    state_dir: Path
    socket: Path
    log_dir: Path

    def is_running(self) -> bool:
        """
        Tell whether a supervisord answers on the socket.

        A socket that a dead one left does not count.
        """
        try:
            self._call("getState")
        except (OSError, xmlrpc.Error):
            return False
        return True

    def ensure_running(self) -> None:
        """
        Start supervisord unless it runs.

        Processes that an earlier, killed one left are ended first.

        :raises LocalStackError: it does not start.
        """
        if self.is_running():
            return
        self.end_leftovers()
        programs = self.state_dir / "programs"
        for folder in (self.state_dir, self.log_dir, programs):
            folder.mkdir(parents=True, exist_ok=True)
        for old in programs.glob("*.conf"):
            old.unlink()
        config = self.state_dir / "supervisord.conf"
        config.write_text(
            render_main(state_dir=self.state_dir, socket=self.socket, log_dir=self.log_dir), encoding="utf-8"
        )
        done = subprocess.run(
            [sys.executable, "-m", "supervisor.supervisord", "--configuration", str(config)],
            check=False,
            capture_output=True,
            text=True,
            timeout=START_TIMEOUT_SECONDS,
        )
        if done.returncode != 0:
            raise LocalStackError(
                f"supervisord did not start: {(done.stderr or done.stdout).strip()[-LOG_TAIL_BYTES:]}"
            )
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self.is_running():
            if time.monotonic() > deadline:
                raise LocalStackError(
                    f"supervisord does not answer on {self.socket} after {START_TIMEOUT_SECONDS:.0f} s;"
                    f" see {self.log_dir / 'supervisord.log'}"
                )
            time.sleep(POLL_SECONDS)

    def start(self, program: Program) -> Started:
        """
        Make sure that ``program`` runs as described; returns before it is healthy.

        :raises PartFailed: it cannot be started at all, for example because the executable is missing.
        """
        self.ensure_running()
        file = self.state_dir / "programs" / f"{program.name}.conf"
        text = render_program(program, log=self.log_of(program.name), owner=self.state_dir)
        before = self.info(program.name)
        is_changed = before is not None and (not file.exists() or file.read_text(encoding="utf-8") != text)
        if before is not None and before.is_alive and not is_changed:
            return Started.ALREADY
        _write_private(file, text)
        self._call("reloadConfig")
        if is_changed:
            self.stop(program.name)
            self._call("removeProcessGroup", program.name)
        if before is None or is_changed:
            self._call("addProcessGroup", program.name)
        try:
            self._call("startProcess", program.name, False)
        except xmlrpc.Fault as fault:
            # SPAWN_ERROR: it exited before the first check, and is started again; the wait shows a failure.
            if fault.faultCode not in {Faults.ALREADY_STARTED, Faults.SPAWN_ERROR}:
                raise PartFailed(program.name, f"cannot be started: {fault.faultString}") from fault
        if before is None:
            return Started.NOW
        return Started.CHANGED if is_changed and before.is_alive else Started.AGAIN

    def stop(self, name: str) -> None:
        """Stop one program and wait for its end; nothing happens if it does not run."""
        with _not_running_is_fine(name):
            self._call("stopProcess", name)

    def stop_all(self, names: Collection[str]) -> int:
        """
        Ask these programs to stop, all at once, and wait until none is left.

        supervisord kills each that is not gone after its ``stop_wait_seconds``.

        :return: how many ran.
        :raises LocalStackError: one is still there after the time limit.
        """
        alive = [info for info in self.all().values() if info.pid is not None and info.name in names]
        for info in alive:
            with _not_running_is_fine(info.name):
                self._call("stopProcess", info.name, False)
        deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
        while left := [
            info.name for info in self.all().values() if info.pid is not None and info.name in names
        ]:
            if time.monotonic() > deadline:
                raise LocalStackError(
                    f"{' and '.join(left)} still run {STOP_TIMEOUT_SECONDS:.0f} s after the stop"
                )
            time.sleep(POLL_SECONDS)
        return len(alive)

    def info(self, name: str) -> ProcessInfo | None:
        """
        Return what supervisord knows about a program.

        ``None`` if it does not know the program or does not run.
        """
        return self.all().get(name)

    def all(self) -> dict[str, ProcessInfo]:
        """Return each known program by name; empty if supervisord does not run."""
        try:
            answers: list[dict[str, Any]] = self._call("getAllProcessInfo")
        except OSError:
            return {}
        return {answer["name"]: _info_from_answer(answer) for answer in answers}

    def shut_down(self) -> bool:
        """
        Stop all programs and supervisord itself.

        :return: False if there was nothing to stop.
        :raises LocalStackError: it is still there after the time limit.
        """
        if not self.is_running():
            return self.end_leftovers() > 0
        pid: int = self._call("getPID")
        self._call("shutdown")
        try:
            with suppress(psutil.NoSuchProcess):  # ended in between, as asked
                psutil.Process(pid).wait(STOP_TIMEOUT_SECONDS)
        except psutil.TimeoutExpired as error:
            raise LocalStackError(
                f"supervisord (process {pid}) still runs {STOP_TIMEOUT_SECONDS:.0f} s after it was asked to "
                "stop"
            ) from error
        self.end_leftovers()
        return True

    def end_leftovers(self) -> int:
        """
        End the processes of this stack that no supervisord watches any more.

        They are found by the mark in their environment.

        There are some after ``kill -9`` of supervisord, or when a program died without ending its own
        children.

        :return: how many there were; 0 while supervisord runs.
        """
        if self.is_running():
            return 0
        mine = [process for process in psutil.process_iter() if self._is_ours(process)]
        for process in mine:
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        _, alive = psutil.wait_procs(mine, timeout=5)
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(alive, timeout=5)
        return len(mine)

    def log_of(self, name: str) -> Path:
        """Return the log file of a program."""
        return self.log_dir / f"{name}.log"

    def log_tail(self, name: str, size_bytes: int = LOG_TAIL_BYTES) -> str:
        """Return the end of a program's log, or an empty text if there is none."""
        try:
            with self.log_of(name).open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - size_bytes))
                return log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def _call(self, method: str, *arguments: Any) -> Any:
        """Return supervisord's answer to one call, on a connection of its own."""
        transport = SupervisorTransport(None, None, f"unix://{self.socket}")
        with closing(transport):
            server = xmlrpc.ServerProxy("http://localhost", transport=transport)
            return getattr(server.supervisor, method)(*arguments)

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.pid != os.getpid() and process.environ().get(OWNER_VARIABLE) == str(self.state_dir)
        except (psutil.Error, OSError):  # ended in between, or not ours to look at
            return False


def _info_from_answer(answer: dict[str, Any]) -> ProcessInfo:
    state = answer["state"]
    return ProcessInfo(
        name=answer["name"],
        state=answer["statename"],
        pid=answer["pid"] or None,
        is_alive=state in RUNNING_STATES,
        # What ended after its first second is started again at once.
        has_given_up=state in STOPPED_STATES and state != ProcessStates.EXITED,
    )


@contextmanager
def _not_running_is_fine(name: str) -> Iterator[None]:
    try:
        yield
    except xmlrpc.Fault as fault:
        if fault.faultCode not in {Faults.NOT_RUNNING, Faults.BAD_NAME}:
            raise LocalStackError(f"{name} cannot be stopped: {fault.faultString}") from fault


def _write_private(file: Path, text: str) -> None:
    """
    Write a file that only its owner may read.

    The environment of a program may contain a password.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as output:
        output.write(text)
