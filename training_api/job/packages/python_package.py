"""
Python packages instead of a container's own program: what is installed and run.

By the program ``training_service/launcher/run_package.py``. A job of a runtime version (``PythonPackages``)
runs on an image that has it as its entry point. Which image that is, and which versions there are, only a
service knows; this module names it by its version (``runtime_image``). In any other image (``PackageTask``)
the program is brought into the container.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from training_api.job.image_ref import LOCAL_HOST, ImageRef

_RUNTIME_REPOSITORY = "container-training/runtime"
#: discovery of ml.v1 and of aiplatform.v1: "The maximum number of package URIs is 100".
MAX_PACKAGES = 100
#: A package: an object in Cloud Storage.
OBJECT = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]/(?:[^/\s][^\r\n]*)?[^/\s]")
#: A module's dotted name.
MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
#: A runtime version, or a version of Python.
VERSION = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){1,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonPackages:
    """
    What a job installs and runs in place of an image of its own.

    :param uris: objects in Cloud Storage, in the order in which they are installed.
    :param module: the module to run, by its dotted name.
    """

    uris: tuple[str, ...]
    module: str
    runtime_version: str
    python_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageTask:
    """
    What a replica installs into its image, and runs.

    :param uris: as those of ``PythonPackages``.
    :param module: as well.
    """

    uris: tuple[str, ...]
    module: str


def runtime_image(version: str) -> ImageRef:
    """
    Return the name of the image of a runtime version. Pure.

    A service replaces it by its own.
    """
    return ImageRef(
        host=LOCAL_HOST,
        repository=_RUNTIME_REPOSITORY,
        tag=version if VERSION.fullmatch(version) else "unknown",
    )


def runtime_of(image: ImageRef) -> str | None:
    """Return the runtime version behind the name ``image``; ``None`` for any other image. Pure."""
    is_runtime = image.host == LOCAL_HOST and image.repository == _RUNTIME_REPOSITORY
    return image.tag if is_runtime else None


def runtime_args(packages: PythonPackages, args: Sequence[str]) -> tuple[str, ...]:
    """
    Return the arguments of a runtime image's entry point.

    What to install and run, ``--``, the trainer's own arguments.

    Pure.
    """
    return (
        *_package_args(packages.uris),
        f"--module={packages.module}",
        f"--runtime-version={packages.runtime_version}",
        f"--python-version={packages.python_version}",
        "--",
        *args,
    )


def task_args(task: PackageTask, args: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments of the program that installs and runs ``task``. Pure."""
    return (*_package_args(task.uris), f"--module={task.module}", "--", *args)


def with_uris(args: Sequence[str], uris: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments that ``runtime_args`` gave, with as many other packages. Pure."""
    return (*_package_args(uris), *args[len(uris) :])


def _package_args(uris: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"--package={uri}" for uri in uris)
