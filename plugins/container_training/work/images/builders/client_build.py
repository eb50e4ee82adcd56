"""Runs docker's command line, whose session BuildKit asks for secrets and SSH agents."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import BinaryIO, cast

from container_training.work.images.builders.build_order import BuildOrder
from container_training.work.images.builders.buildkit_output import BuildkitOutput
from container_training.work.images.builders.redaction import Redaction
from training_api.errors import BuildFailed


def run_build(command: Sequence[str], order: BuildOrder, environment: Mapping[str, str]) -> None:
    """
    Build what ``order`` says with ``command``.

    It gets the packed context on its standard input.

    :param command: program and arguments before those that all builds have.
    :raises BuildKitMissing: the engine has no BuildKit.
    :raises BuildFailed: a step failed, or the build was cancelled.
    :raises DiskFull: the builder's disk has no room.
    :raises EngineUnavailable: the builder does not answer.
    :raises RegistryUnavailable: a registry that the build needs does not answer.
    :raises PushFailed: the registry refuses the image.
    """
    values = order.session.read_secrets()
    hide = Redaction(values.values())
    output = BuildkitOutput(lambda line: order.on_line(hide(line)))
    with ExitStack() as stack:
        secrets = {id_: stack.enter_context(_in_memory(value)) for id_, value in values.items()}
        process = subprocess.Popen(
            [*command, *_arguments(order, secrets)],
            stdin=order.archive,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=environment,
            pass_fds=tuple(secret.fileno() for secret in secrets.values()),
            start_new_session=True,  # with a plugin there are several processes, which end together
        )
        with _ended(process), order.cancellation.stops_with(lambda: _kill(process)):
            if order.cancellation.is_cancelled:
                raise BuildFailed("the build was cancelled")
            for line in process.stdout or ():
                output.read(line)
            exit_code = process.wait()
    if order.cancellation.is_cancelled:
        raise BuildFailed("the build was cancelled")
    if exit_code:
        error = output.error(exit_code)
        raise type(error)(hide(str(error)))


def _arguments(order: BuildOrder, secrets: Mapping[str, BinaryIO]) -> list[str]:
    """Return the arguments of all builds; a secret is passed as the number of an open file."""
    arguments = ["--progress=plain", "--file", order.dockerfile, "--tag", str(order.ref)]
    for name, value in order.build_args.items():
        arguments += ["--build-arg", f"{name}={value}"]
    for name, value in order.labels.items():
        arguments += ["--label", f"{name}={value}"]
    if order.network_mode:
        arguments += ["--network", order.network_mode]
    for id_, secret in secrets.items():
        arguments += ["--secret", f"id={id_},src=/dev/fd/{secret.fileno()}"]
    for id_, source in order.session.ssh.items():
        arguments += ["--ssh", f"{id_}={source}" if source else id_]
    return [*arguments, "-"]


@contextmanager
def _in_memory(value: bytes) -> Iterator[BinaryIO]:
    """
    Yield an open file with ``value`` that has no name, so that nothing outlives this process.

    The program opens it as ``/dev/fd/NUMBER``.
    """
    with _nameless_file() as file:
        file.write(value)
        file.seek(0)
        yield file


def _nameless_file() -> BinaryIO:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("secret"), "w+b", buffering=0)
    return cast(BinaryIO, tempfile.TemporaryFile("w+b", buffering=0))  # not Linux


@contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """End ``process``, and what it started, on the way out."""
    try:
        yield
    finally:
        _kill(process)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _kill(process: subprocess.Popen[str]) -> None:
    """
    End ``process`` and what it started; the builder then stops the build.

    Not by SIGTERM: docker 20.10 then waits for the engine, which waits for the step.
    """
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
