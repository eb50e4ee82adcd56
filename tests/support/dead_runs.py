"""
Removes what killed test runs left: processes, folders, containers, networks, images.

A run is dead when nobody holds the lock of its record (:mod:`tests.support.run_id`). What is the run's is
known exactly:

- processes by ``TESTS_RUN_ID`` in their environment, and what they have started;
- containers and networks by the run's label, or by a label that the record names, such as a training
  service's id;
- containers also by their image, if that is the run's;
- images by the run's label; names of images by the run's id or by a registry port that only this run had.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import docker
import docker.errors
import psutil

from container_engines.egress import mark_of, table_of
from container_engines.labels import SERVICE
from tests.support.run_id import (
    RUN_LABEL,
    RUN_VARIABLE,
    claims_of,
    current_run,
    remove_record,
    state_folder,
)

#: By these a training service, and a task that tests an image, mark the networks of their containers.
_OWNER_LABELS = ("container-training.service", "container-training.owner")
#: How long a process may take to end by itself.
_GRACE_SECONDS = 10.0
#: The record of a run whose engine never came back is dropped after so long.
_FORGET_SECONDS = 7 * 24 * 3600
_ENGINE_PROGRAMS = frozenset({"dockerd", "containerd", "containerd-shim", "docker-proxy"})


def clean_up_after_dead_runs(client: docker.APIClient, state: Path | None = None) -> list[str]:
    """
    Remove what dead runs left; things of live runs and of strangers stay.

    Runs that are in use on another engine keep their record until somebody cleans up there. What cannot be
    removed is said on standard error and left to the next call.

    :param client: of the engine that the tests use.
    :param state: the folder of the records; default: this user's.
    :return: the ids of the runs of which nothing is left.
    """
    if state is None:
        state = state_folder()
        current_run().use_engine(client)
        _remove_machines()
    engine_id = client.info()["ID"]
    cleaned = []
    for folder in sorted(path for path in state.iterdir() if (path / "lock").is_file()):
        lock = _lock_of_dead_run(folder)
        if lock is None:
            continue
        try:
            if _remove_run(client, engine_id, state, folder):
                cleaned.append(folder.name)
        except (docker.errors.APIError, OSError, psutil.Error, subprocess.SubprocessError) as error:
            print(f"what is left of the run of tests {folder.name} stays: {error}", file=sys.stderr)
        finally:
            os.close(lock)
    return cleaned


def _remove_machines() -> None:
    """
    Remove what is left of swarms' machines.

    They have separate records, because they end with one process and not with a run.
    """
    from tests.support.bed.machines import remove_leftovers  # which is about runs, too

    try:
        remove_leftovers()
    except (AssertionError, OSError, RuntimeError) as error:
        print(f"what is left of a swarm of tests stays: {error}", file=sys.stderr)


def _lock_of_dead_run(folder: Path) -> int | None:
    """Return the lock of a run that nobody is in; ``None``: somebody is, or cleans up after it."""
    try:
        handle = os.open(folder / "lock", os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    if os.fstat(handle).st_nlink == 0:  # somebody else was quicker
        os.close(handle)
        return None
    return handle


def _remove_run(client: docker.APIClient, engine_id: str, state: Path, folder: Path) -> bool:
    """Remove all of a dead run that is within reach; return whether that was all."""
    end_processes_of(folder.name, folder)
    used = _read(folder / "engine")
    if used == engine_id:
        stays = _remove_from_engine(client, _Marks(state, folder))
        if stays:
            raise OSError("; ".join(stays))
    elif used and time.time() - (folder / "engine").stat().st_mtime < _FORGET_SECONDS:
        return False
    _remove_folders(folder)
    remove_record(state, folder.name)
    return True


# --- processes


def end_processes_of(run_id: str, folder: Path) -> None:
    """End all processes of the run; an engine that the run has started for everybody stays."""
    for _ in range(3):  # what is being ended may start something until it is
        found = list(_processes_of(run_id, folder))
        if not found:
            return
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        _, alive = psutil.wait_procs(found, timeout=_GRACE_SECONDS)
        for process in alive:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(alive, timeout=_GRACE_SECONDS)


def _processes_of(run_id: str, folder: Path) -> Iterator[psutil.Process]:
    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # ended in between, or another user's
            if process.environ().get(RUN_VARIABLE) == run_id:
                # Some programs, Airflow's among them, write their title over their environment.
                found |= {each.pid: each for each in (process, *process.children(recursive=True))}
    for process in list(found.values()):
        with suppress(psutil.Error):
            if process.name().startswith(tuple(_ENGINE_PROGRAMS)) and str(folder) not in " ".join(
                process.cmdline()
            ):
                spared |= {each.pid for each in (process, *process.parents(), *process.children(True))}
    yield from (process for pid, process in found.items() if pid not in spared)


# --- the engine


class _Marks:
    """How the things of one run are recognised on the engine."""

    def __init__(self, state: Path, folder: Path) -> None:
        run_id = folder.name
        self.labels = {(RUN_LABEL, run_id)}
        for line in _read(folder / "labels").splitlines():
            name, _, value = line.partition("=")
            self.labels.add((name, value))
        ports = [name.removeprefix("port-") for name in claims_of(state, run_id) if name.startswith("port-")]
        self.image_prefixes = (
            f"localhost/{run_id}/",
            *(f"{host}:{port}/" for port in ports for host in ("127.0.0.1", "localhost")),
        )
        #: The local stack runs the registry's image under this name where there is no program of it.
        self.container_names = {f"/local-stack-registry-{port}" for port in ports}

    def has_label(self, labels: Mapping[str, str] | None) -> bool:
        return not self.labels.isdisjoint((labels or {}).items())


def _remove_from_engine(client: docker.APIClient, marks: _Marks) -> list[str]:
    """Remove what the run has on the engine; return what stays and why."""
    images = sorted(client.images(), key=lambda image: image["Created"], reverse=True)  # derived ones first
    own_images = {
        image["Id"]
        for image in images
        if (names := _names(image)) and all(name.startswith(marks.image_prefixes) for name in names)
    }
    containers = [
        container
        for container in client.containers(all=True)
        if marks.has_label(container["Labels"])
        or not marks.container_names.isdisjoint(container["Names"] or ())
        or container["Image"].startswith(marks.image_prefixes)
        or container["ImageID"] in own_images
    ]
    for container in containers:
        owners = {name: container["Labels"].get(name) for name in _OWNER_LABELS}
        marks.labels |= {(name, value) for name, value in owners.items() if value}
    for label, value in marks.labels:
        if label == SERVICE and shutil.which("nft"):
            table = ["nft", "delete", "table", "inet", table_of(mark_of(value))]
            subprocess.run(table, check=False, capture_output=True)  # most services of tests have none
    networks = [network["Id"] for network in client.networks() if marks.has_label(network["Labels"])]
    names = [name for image in images for name in _names_to_remove(image, marks)]
    remove_container = partial(client.remove_container, force=True, v=True)
    return [
        *remove_each(remove_container, [container["Id"] for container in containers]),
        *remove_each(client.remove_network, networks),
        *remove_each(partial(client.remove_image, force=True), names),
    ]


def remove_each(remove: Callable[[str], Any], names: Iterable[str]) -> list[str]:
    """
    Remove all that can be; return what cannot and why.

    A network may stay although nothing is in it: Docker 20.10 can count an endpoint too many, and then keeps
    the network until the engine starts again (seen once in some hundred runs; moby/moby#42119).
    """
    stays = []
    for name in names:
        try:
            remove(name)
        except docker.errors.NotFound:
            pass  # the last tag takes the digests along
        except docker.errors.APIError as error:
            stays.append(f"{name}: {error.explanation}")
    return stays


def _names_to_remove(image: Mapping[str, Any], marks: _Marks) -> list[str]:
    if marks.has_label(image["Labels"]):
        return [image["Id"]]
    return [name for name in _names(image) if name.startswith(marks.image_prefixes)]


def _names(image: Mapping[str, Any]) -> list[str]:
    names = [*(image.get("RepoTags") or ()), *(image.get("RepoDigests") or ())]
    return [name for name in names if "<none>" not in name]


# --- folders


def _remove_folders(folder: Path) -> None:
    for link in folder.glob("tmp-*"):
        remove_tree(link.readlink())
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)


def remove_tree(folder: Path) -> None:
    """
    Remove a folder, after all that is mounted in it has been detached.

    :raises OSError: something stays mounted; then nothing is removed.
    """
    for mount in sorted(_mounts_below(folder), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)
    if left := _mounts_below(folder):
        raise OSError(f"{left} cannot be unmounted")
    shutil.rmtree(folder, ignore_errors=True)


def _mounts_below(folder: Path) -> list[str]:
    mounts = (Path(part.mountpoint) for part in psutil.disk_partitions(all=True))
    return [str(mount) for mount in mounts if mount.is_relative_to(folder)]


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        return ""
