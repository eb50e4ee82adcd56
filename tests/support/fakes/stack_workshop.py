"""What the parts of a local stack work with, without processes, packages or an engine."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker.errors

from local_stack.parts.part import Workshop
from local_stack.processes.manager import ProcessInfo, Started
from local_stack.processes.packages import PackageInstaller
from local_stack.processes.progress import Progress
from local_stack.processes.supervisor_config import Program
from local_stack.settings import StackSettings


class FakeProcesses:
    """
    Stands for a ``ProcessManager``: programs run from their start to their stop.

    :ivar dies: names of programs that end right after each start.
    """

    def __init__(self, log_dir: Path) -> None:
        self.log_dir = log_dir
        self.known: dict[str, ProcessInfo] = {}
        self.acts: list[str] = []
        self.dies: set[str] = set()

    def all(self) -> dict[str, ProcessInfo]:
        return dict(self.known)

    def info(self, name: str) -> ProcessInfo | None:
        return self.known.get(name)

    def start(self, program: Program) -> Started:
        before = self.known.get(program.name)
        if before is not None and before.is_alive:
            return Started.ALREADY
        self.acts.append(f"start {program.name}")
        is_alive = program.name not in self.dies
        self.known[program.name] = make_info(program.name, is_alive=is_alive)
        return Started.NOW if before is None else Started.AGAIN

    def stop_all(self, names: Collection[str]) -> int:
        alive = sorted(name for name, info in self.known.items() if info.is_alive and name in names)
        for name in alive:
            self.known[name] = make_info(name, is_alive=False)
        if alive:
            self.acts.append(f"stop {' '.join(alive)}")
        return len(alive)

    def end_leftovers(self) -> int:
        self.acts.append("end leftovers")
        return 0

    def shut_down(self) -> bool:
        self.acts.append("shut down")
        was_there = bool(self.known)
        self.known = {}
        return was_there

    def log_of(self, name: str) -> Path:
        return self.log_dir / f"{name}.log"

    def log_tail(self, name: str) -> str:
        return f"the last words of {name}"


def make_info(name: str, *, is_alive: bool = True, pid: int | None = 4321) -> ProcessInfo:
    """Return a program that runs, or one that supervisord does not start again."""
    return ProcessInfo(
        name=name,
        state="RUNNING" if is_alive else "FATAL",
        pid=pid if is_alive else None,
        is_alive=is_alive,
        has_given_up=not is_alive,
    )


def make_workshop(folder: Path, **settings: Any) -> Workshop:
    """
    Return what parts work with.

    Nothing may be installed. What is said goes to ``progress.stream``.
    """
    known = StackSettings.model_validate(
        {"state_dir": folder, "docker_host": "unix:///absent.sock"} | settings
    )
    progress = Progress(stream=io.StringIO())
    return Workshop(
        settings=known,
        processes=FakeProcesses(known.log_dir),  # type: ignore[arg-type]
        packages=PackageInstaller(log=folder / "packages.log", allowed=False, progress=progress),
        progress=progress,
    )


def said(progress: Progress) -> list[str]:
    """Return the lines that were said."""
    assert isinstance(progress.stream, io.StringIO)
    return progress.stream.getvalue().splitlines()


class FakeEngine:
    """
    Stands for a ``docker.DockerClient``: keeps the names of images, and how each came.

    :ivar refuses: what an image's pull or build ends with, instead of the image.
    """

    def __init__(self, *images: str) -> None:
        self.present = set(images)
        self.acts: list[str] = []
        self.contexts: list[dict[str, bytes]] = []
        self.refuses: docker.errors.DockerException | None = None
        self.is_closed = False
        self.images = SimpleNamespace(get=self._get, pull=self._pull, build=self._build)

    def close(self) -> None:
        self.is_closed = True

    def _get(self, name: str) -> None:
        if name not in self.present:
            raise docker.errors.ImageNotFound(f"no such image: {name}")

    def _pull(self, name: str) -> None:
        self._add("pull", name)

    def _build(
        self, *, fileobj: io.BytesIO, custom_context: bool, tag: str, buildargs: Mapping[str, str], rm: bool
    ) -> None:
        assert custom_context
        assert rm
        with tarfile.open(fileobj=fileobj) as archive:
            self.contexts.append(
                {name: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]
            )
        self._add(f"build from {buildargs['BASE_IMAGE']}", tag)

    def _add(self, how: str, name: str) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.acts.append(f"{how}: {name}")
        self.present.add(name)
