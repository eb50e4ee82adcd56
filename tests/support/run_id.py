"""
The run of tests that this process belongs to, and the record of what the run has made.

Several runs share a machine and a Docker Engine, and several pytest processes may share a run. Each run has
an id: that of ``TESTS_RUN_ID``, which the suite's runner sets for its processes, or a random one. A run is
alive as long as one of its processes holds the lock in the run's folder; the kernel releases the lock however
the process ends. What a run makes is found by its record alone::

    /var/tmp/container-training-tests-<uid>/
        claims/<kind>-<name>   a port or the like that belongs to one run: a link whose target is the run's id
        exclusive/<name>       a lock that one process of all runs holds at a time
        <run id>/lock          held, shared, by each process of the run
        <run id>/engine        the id of the engine on which the run has made something
        <run id>/labels        NAME=VALUE: labels of what others, such as a training service, made for the run
        <run id>/tmp-*         links to pytest's temporary folders
        <run id>/...           the run's own folders

:mod:`tests.support.dead_runs` removes what a run left behind that has ended.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import secrets
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import docker

#: The run's id. Each process that a run starts inherits it, which is how the next run finds processes that
#: are left.
RUN_VARIABLE = "TESTS_RUN_ID"
#: The label of containers, networks and images of a run; its value is the run's id.
RUN_LABEL = "container-training.test-run"
#: Another folder for the records of all runs; for the tests of this module.
STATE_VARIABLE = "TESTS_STATE_DIR"
#: Short, as paths of unix sockets begin with it, and fit for image names, labels and host names.
_ID = re.compile(r"[a-z0-9]{1,16}")
#: PostgreSQL runs as another user, who must get as far as its own folder.
_PASSABLE = 0o711


class Run:
    """
    One run of tests, as one of its processes sees it.

    :param run_id: lower-case letters and digits, at most 16.
    :param state: the folder of the records of all runs.
    :raises ValueError: ``run_id`` has another form.
    """

    def __init__(self, run_id: str, state: Path) -> None:
        if not _ID.fullmatch(run_id):
            raise ValueError(
                f"{RUN_VARIABLE} must have 1 to 16 lower-case letters and digits, got {run_id!r}"
            )
        self.id = run_id
        self.state = state
        self.folder = state / run_id
        #: Tells the processes of one run apart.
        self.member = secrets.token_hex(3)
        #: The values of the labels that are this process's own, by the label's name.
        self.owned: dict[str, set[str]] = defaultdict(set)
        self._ports: set[int] = set()
        self._lock = _join(self.folder)
        self._pid = os.getpid()
        # A child that is forked and outlives its parent must not keep the run alive.
        os.register_at_fork(after_in_child=self._let_go)
        atexit.register(self._leave)

    @property
    def labels(self) -> dict[str, str]:
        """Labels for everything that a test makes on the engine."""
        return {RUN_LABEL: self.id}

    @property
    def image_prefix(self) -> str:
        """What names of images begin with that this process makes, and that go to no registry."""
        return f"localhost/{self.id}/{self.member}/"

    def image(self, name: str) -> str:
        """Return the name of an image of this process that goes to no registry."""
        return self.image_prefix + name

    def owns_image(self, name: str) -> bool:
        """Tell whether ``name`` is local to this process, or in a registry on a port claimed by it."""
        hosts = {f"{host}:{port}" for port in self._ports for host in ("127.0.0.1", "localhost")}
        return name.startswith(self.image_prefix) or name.partition("/")[0] in hosts

    def make_folder(self, name: str) -> Path:
        """Make a new folder with a short path; the next run removes it if this one is killed."""
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
        folder.chmod(_PASSABLE)
        return folder

    def claim(self, kind: str, name: str) -> bool:
        """Make ``name`` the run's own until the run is over; return False if a run has it."""
        try:
            # A link has its contents from the moment that it exists, which a file has not.
            (claims_folder(self.state) / f"{kind}-{name}").symlink_to(self.id)
        except FileExistsError:
            return False
        if kind == "port":
            self._ports.add(int(name))
        return True

    def own_label(self, name: str, value: str) -> None:
        """Note that what carries this label on the engine belongs to the run."""
        self.owned[name].add(value)
        with (self.folder / "labels").open("a", encoding="utf-8") as file:
            file.write(f"{name}={value}\n")

    def use_engine(self, client: docker.APIClient) -> None:
        """Note that the run makes things on this engine."""
        (self.folder / "engine").write_text(client.info()["ID"], encoding="utf-8")

    @contextmanager
    def temporary_folder(self, folder: Path) -> Iterator[None]:
        """
        Own ``folder`` until the block ends.

        If this run is killed meanwhile, the next run removes the folder.
        """
        link = self.folder / f"tmp-{self.member}"
        link.symlink_to(folder)
        yield
        link.unlink()

    def _let_go(self) -> None:
        os.close(self._lock)

    def _leave(self) -> None:
        """Remove the record if this is the run's last process and nothing can be left on an engine."""
        if os.getpid() != self._pid or (self.folder / "engine").exists():
            return
        with suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_record(self.state, self.id)


@cache
def current_run() -> Run:
    """Return the run of this process, which joins it, or begins it, when asked first."""
    run = Run(os.environ.get(RUN_VARIABLE) or secrets.token_hex(4), state_folder())
    os.environ[RUN_VARIABLE] = run.id
    return run


def state_folder() -> Path:
    """Return the folder of the records of all runs of this user."""
    folder = Path(os.environ.get(STATE_VARIABLE) or f"/var/tmp/container-training-tests-{os.getuid()}")
    folder.mkdir(mode=_PASSABLE, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} must belong to user {os.getuid()}; remove it")
    return folder


def claims_folder(state: Path) -> Path:
    """Return the folder of all claims."""
    folder = state / "claims"
    folder.mkdir(exist_ok=True)
    return folder


def claims_of(state: Path, run_id: str) -> Mapping[str, Path]:
    """Return what the run has claimed, ``KIND-NAME``, with the link that says so."""
    found = {}
    for link in claims_folder(state).iterdir():
        with suppress(FileNotFoundError):  # of a run whose record is being removed
            if str(link.readlink()) == run_id:
                found[link.name] = link
    return found


def remove_record(state: Path, run_id: str) -> None:
    """
    Remove the record of a run whose only lock the caller holds.

    No other part of the run may be left.
    """
    for link in claims_of(state, run_id).values():
        link.unlink()
    shutil.rmtree(state / run_id, ignore_errors=True)


@contextmanager
def exclusive(name: str) -> Iterator[None]:
    """While open, no other process of any run is in here for ``name``; waits for it."""
    folder = state_folder() / "exclusive"
    folder.mkdir(exist_ok=True)
    with (folder / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _join(folder: Path) -> int:
    """Make the run's folder if need be, and take its lock beside the run's other processes."""
    while True:
        folder.mkdir(mode=_PASSABLE, exist_ok=True)
        try:
            handle = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        except FileNotFoundError:
            continue  # the record of an ended run of that id is being removed
        fcntl.flock(handle, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            if os.fstat(handle).st_ino == (folder / "lock").stat().st_ino:
                return handle
        os.close(handle)
