"""
What goes ahead of a trainer in its container: programs that install and fetch.

The files are this distribution's (``training_service/launcher``). They are brought into the container, whose
image needs ``python3`` for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from training_api.job.packages.bucket_paths import named_objects
from training_api.job.packages.python_package import PackageTask, task_args

#: Where a container finds the program. Neither the image nor the trainer has anything at this path.
LAUNCHER_FOLDER = "/run/container-training-launcher"
_SOURCE = Path(__file__).parents[1] / "launcher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """
    How a container is started.

    :param command: replaces the image's entry point; empty: keep the image's.
    :param files: absolute path -> content of what is brought into the container.
    :param folders: absolute paths of empty folders to which everybody in it may write.
    """

    command: tuple[str, ...]
    args: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


def started(
    command: Sequence[str],
    args: Sequence[str],
    installs: PackageTask | None,
    *,
    bucket_folder: str = "",
    variables: Mapping[str, str] | None = None,
) -> Started:
    """
    Return how a replica is started: by its own command, with what goes ahead of it.

    :param installs: the packages whose module it runs in place of ``command``.
    :param bucket_folder: where its words name objects; empty: nowhere.
    :param variables: those of its container.
    """
    words = (*(variables or {}).values(), *command, *args)
    objects = named_objects(bucket_folder, words) if bucket_folder else ()
    if installs:
        command, args = _program("run_package.py"), task_args(installs, args)
    if not objects or not command:
        files = _files() if installs else {}
        return Started(command=tuple(command), args=tuple(args), files=files)
    fetched = (f"--folder={bucket_folder}", *(f"--object={name}" for name in objects))
    return Started(
        command=(*_program("fetch_files.py"), *fetched, "--", *command),
        args=tuple(args),
        files=_files(),
        folders=(bucket_folder,),
    )


def _program(name: str) -> tuple[str, ...]:
    return ("python3", "-u", f"{LAUNCHER_FOLDER}/{name}")


@cache
def _files() -> Mapping[str, bytes]:
    return {f"{LAUNCHER_FOLDER}/{path.name}": path.read_bytes() for path in sorted(_SOURCE.glob("*.py"))}
