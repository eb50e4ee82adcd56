"""
A job of Python packages instead of a container: what it installs and runs.

Such a job runs on the image of its runtime version. Which image that is, and which versions there are, only a
service knows; this module names it by its version (``runtime_image``) and gives the arguments for the image's
entry point (``docker/runtime/run_package.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from training_api.job.image_ref import LOCAL_HOST, ImageRef

_RUNTIME_REPOSITORY = "container-training/runtime"
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


def with_uris(args: Sequence[str], uris: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments that ``runtime_args`` gave, with as many other packages. Pure."""
    return (*_package_args(uris), *args[len(uris) :])


def _package_args(uris: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"--package={uri}" for uri in uris)
