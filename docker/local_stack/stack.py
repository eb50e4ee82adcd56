"""One local stack: its parts, brought up in order and taken down again."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from local_stack.errors import PartFailed
from local_stack.parts.airflow import Airflow
from local_stack.parts.base_image import BaseImage
from local_stack.parts.database import Database
from local_stack.parts.engine import Engine
from local_stack.parts.machines import Machines
from local_stack.parts.object_store import ObjectStore
from local_stack.parts.part import StackPart, Workshop
from local_stack.parts.registry import Registry
from local_stack.parts.training import Training
from local_stack.processes.manager import ProcessManager, Started
from local_stack.processes.packages import PackageInstaller
from local_stack.processes.ports import require_free
from local_stack.processes.private_folder import make_private
from local_stack.processes.progress import Progress
from local_stack.settings import ALL_PARTS, SERVE_PARTS, Part, StackSettings

POLL_SECONDS = 0.1
_LOCK = "stack.lock"

_PARTS: dict[Part, type[StackPart]] = {
    Part.ENGINE: Engine,
    Part.BASE_IMAGE: BaseImage,
    Part.MACHINES: Machines,
    Part.REGISTRY: Registry,
    Part.OBJECT_STORE: ObjectStore,
    Part.TRAINING: Training,
    Part.DATABASE: Database,
    Part.AIRFLOW: Airflow,
}


class LocalStack:
    """
    Brings parts up, and takes down what it brought up, and only that.

    As a context manager it takes everything down at the end::

        with LocalStack(StackSettings(state_dir=folder, registry_port=free_port())) as stack:
            stack.up([Part.ENGINE, Part.REGISTRY])

    :param settings: addresses and folders; two stacks at once need different ones.
    :param progress: where progress is said; standard error by default.
    """

    def __init__(self, settings: StackSettings, progress: Progress | None = None) -> None:
        self.settings = settings
        self.progress = progress or Progress()
        self.processes = ProcessManager(
            settings.state_dir.absolute(), settings.supervisor_socket, settings.log_dir
        )
        self.packages = PackageInstaller(
            log=settings.log_dir / "packages.log", allowed=settings.install_packages, progress=self.progress
        )
        workshop = Workshop(
            settings=settings, processes=self.processes, packages=self.packages, progress=self.progress
        )
        self.parts: dict[Part, StackPart] = {name: kind(workshop) for name, kind in _PARTS.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    @property
    def engine(self) -> Engine:
        """The part that runs, or merely uses, the Docker Engine."""
        engine = self.parts[Part.ENGINE]
        assert isinstance(engine, Engine)  # noqa: S101  # for the type checker: _PARTS says so
        return engine

    @property
    def machines(self) -> Machines:
        """The part that lets other machines take part."""
        machines = self.parts[Part.MACHINES]
        assert isinstance(machines, Machines)  # noqa: S101  # for the type checker: _PARTS says so
        return machines

    def up(self, parts: Collection[Part] = SERVE_PARTS) -> None:
        """
        Start ``parts`` in the order of :class:`Part`.

        Each is started only when those before it are healthy.

        What runs already and is healthy is left alone, so that a second call is quick; what died is started
        again.

        :raises LocalStackError: a part cannot be brought up. What came up before it stays up.
        """
        with self._locked():
            # Before anything is looked at: leftovers hold ports, and an engine of ours among them is to be
            # ended.
            self.processes.end_leftovers()
            self._stop_what_is_no_part()
            for name in Part:
                if name in parts:
                    part = self.parts[name]
                    with part.start_lock():
                        self._bring_up(part)

    def down(self, parts: Collection[Part] = ALL_PARTS) -> bool:
        """
        Stop the programs of ``parts`` that this stack started; data and images stay.

        :return: False if nothing ran.
        """
        if not self.settings.state_dir.is_dir():
            return False
        with self._locked():
            stopped = 0
            # What others stand on goes last: Airflow on its database, the jobs of the training service on the
            # engine.
            grounds = frozenset({Part.DATABASE, Part.ENGINE})
            for group in (frozenset(parts) - grounds, frozenset(parts) & grounds):
                stopped += self.processes.stop_all(
                    {name for part in group for name in self.parts[part].program_names()}
                )
            if self.running():
                return stopped > 0
            return self.processes.shut_down()

    def running(self) -> frozenset[Part]:
        """Return the parts of which this stack supervises a live program."""
        alive = {info.name for info in self.processes.all().values() if info.is_alive}
        return frozenset(
            name for name, part in self.parts.items() if alive.intersection(part.program_names())
        )

    def _stop_what_is_no_part(self) -> None:
        """Stop the programs that an older version of the stack had, and this one has not."""
        names = {name for part in self.parts.values() for name in part.program_names()}
        self.processes.stop_all(set(self.processes.all()) - names)

    def _bring_up(self, part: StackPart) -> None:
        part.prepare()
        programs = part.programs()
        was_running = {info.name for info in self.processes.all().values() if info.pid is not None}
        if not was_running.intersection(program.name for program in programs):
            for listener in part.listeners():
                require_free(listener.host, listener.port, part.name.value, listener.setting)
        begun = time.monotonic()
        is_new = False
        for program in programs:
            started = self.processes.start(program)
            if started is not Started.ALREADY:
                is_new = True
                self.progress.say(f"{program.name}: {started} (log: {self.processes.log_of(program.name)})")
        self._wait_until_healthy(part, [program.name for program in programs])
        part.complete()
        if is_new:
            self.progress.say(
                f"{part.name}: healthy at {part.address()} after {time.monotonic() - begun:.1f} s"
            )

    def _wait_until_healthy(self, part: StackPart, programs: Sequence[str]) -> None:
        limit = max(part.health_timeout_seconds, self.settings.health_timeout_seconds)
        deadline = time.monotonic() + limit
        while not part.is_healthy():
            known = self.processes.all()
            for name in programs:
                if name not in known or known[name].has_given_up:
                    self._fail(name, "ended right after each start")
            if time.monotonic() > deadline:
                self._fail(
                    programs[0] if programs else part.name.value, f"is not healthy after {limit:.0f} s"
                )
            time.sleep(POLL_SECONDS)

    def _fail(self, program: str, reason: str) -> None:
        raise PartFailed(program, reason, self.processes.log_of(program), self.processes.log_tail(program))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """
        Let only one command at a time change the stack.

        The lock ends with the process that holds it.
        """
        folder = self.settings.state_dir.absolute()
        make_private(folder, _LOCK)
        with (folder / _LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.progress.say(f"waiting for another command that works on {folder}")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
            # What this command itself has written, such as the log of a migration.
            make_private(folder, _LOCK)
            make_private(self.settings.log_dir, "supervisord.log")
