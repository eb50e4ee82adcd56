"""Run an image once on a Docker Engine, within limits, with its output as it comes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import docker.errors
from docker.api import APIClient

from container_engines.confinement import PIDS_LIMIT
from container_engines.docker.errors import engine_errors
from container_training.work.images.engine import OWNER_LABEL, Cancellation, closed_answers
from container_training.work.preflight.containers import (
    host_config,
    remove_container,
    remove_leftovers,
)
from container_training.work.preflight.line_splitter import LineSplitter
from training_api.errors import FieldViolation, ImageTestFailed, InvalidJobSpec
from training_api.job.restarts import EXIT_MEANINGS

TAIL_LINES = 30

#: Called with ``stdout`` or ``stderr``, and the line.
OnOutput = Callable[[str, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """
    What one run may take.

    :param timeout_seconds: from start to exit.
    :param memory_bytes: swap included; None is no limit.
    :param cpus: cores; None is no limit.
    :param pids: processes and threads at the same time.
    """

    timeout_seconds: float
    memory_bytes: int | None = None
    cpus: float | None = None
    pids: int = PIDS_LIMIT

    def __post_init__(self) -> None:
        if self.timeout_seconds <= 0:
            raise _invalid_limit("timeout", f"must be > 0 s, got {self.timeout_seconds}")
        if self.pids < 1:
            raise _invalid_limit("pids", f"must be >= 1, got {self.pids}")


def _invalid_limit(field: str, description: str) -> InvalidJobSpec:
    return InvalidJobSpec([FieldViolation(field=field, description=description)])


def run_container(
    api_client: APIClient,
    image: str,
    args: Sequence[str],
    *,
    limits: RunLimits,
    on_output: OnOutput,
    owner: str,
    environment: Mapping[str, str] | None = None,
    hostname: str | None = None,
    cancellation: Cancellation | None = None,
) -> float:
    """
    Run ``image`` with ``args`` and return the seconds that it ran, once it exited with 0.

    The container reaches this machine as ``host.docker.internal``. It is removed in every case; what an earlier run
    of the same ``owner`` left behind (its process was killed) is removed first.

    :param owner: who runs it, the same for every attempt; goes into a label.
    :param on_output: called with each line, as it comes.
    :raises ImageTestFailed: it could not be started, exited non-zero, ran out of memory, or past its time limit.
    :raises ImageNotFound: the engine has no such image.
    :raises DiskFull: the engine has no room for the container.
    :raises EngineUnavailable: the engine does not answer.
    """
    run = _Run(api_client, image, limits, on_output, cancellation or Cancellation())
    with engine_errors(f"run {image}"):
        remove_leftovers(api_client, owner)
        container: str = api_client.create_container(
            image,
            command=list(args) or None,
            hostname=hostname,
            environment=dict(environment or {}),
            labels={OWNER_LABEL: owner},
            host_config=host_config(
                api_client, memory_bytes=limits.memory_bytes, cpus=limits.cpus, pids=limits.pids
            ),
        )["Id"]
        try:
            return run.wait_for(container)
        finally:
            remove_container(api_client, container)


class _Run:
    def __init__(
        self,
        api_client: APIClient,
        image: str,
        limits: RunLimits,
        on_output: OnOutput,
        cancellation: Cancellation,
    ) -> None:
        self._api_client = api_client
        self._image = image
        self._limits = limits
        self._cancellation = cancellation
        self._on_output = on_output
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._is_late = threading.Event()

    def wait_for(self, container: str) -> float:
        """Start ``container`` and see it through."""
        started = time.monotonic()
        with (
            closed_answers(self._api_client),
            self._cancellation.stops_with(lambda: remove_container(self._api_client, container)),
            self._time_limit(container),
        ):
            # Attached before it starts, so that not one line is missed.
            output = self._api_client.attach(container, stream=True, demux=True)
            self._start(container)
            self._read(output)
            exit_code = self._exit_code(container)
        if self._cancellation.is_cancelled:
            raise ImageTestFailed(f"the run of {self._image} was cancelled")
        if self._is_late.is_set():
            raise ImageTestFailed(
                f"{self._image} did not end within its time limit of {self._limits.timeout_seconds:g} s, and was"
                f" killed{self._tail_text()}"
            )
        if exit_code != 0:
            raise ImageTestFailed(
                f"{self._image} {self._describe_end(container, exit_code)}{self._tail_text()}"
            )
        return time.monotonic() - started

    def _start(self, container: str) -> None:
        try:
            self._api_client.start(container)
        except docker.errors.APIError as error:
            if error.is_client_error():
                # For example an ENTRYPOINT that is not in the image.
                raise ImageTestFailed(f"{self._image} could not be started: {error.explanation}") from error
            raise

    def _read(self, output: Iterator[tuple[bytes | None, bytes | None]]) -> None:
        streams = {name: LineSplitter() for name in ("stdout", "stderr")}
        for chunks in output:
            for (name, splitter), chunk in zip(streams.items(), chunks, strict=True):
                for line in splitter.feed(chunk or b""):
                    self._line(name, line)
        for name, splitter in streams.items():
            for line in splitter.finish():
                self._line(name, line)

    def _line(self, stream: str, line: str) -> None:
        self._tail.append(line)
        self._on_output(stream, line)

    def _exit_code(self, container: str) -> int:
        try:
            return self._api_client.wait(container)["StatusCode"]
        except docker.errors.NotFound:
            if self._cancellation.is_cancelled:  # which removed it
                return -1
            raise ImageTestFailed(f"the container of {self._image} was removed by somebody else") from None

    def _describe_end(self, container: str, exit_code: int) -> str:
        state: dict[str, Any] = self._api_client.inspect_container(container)["State"]
        if state.get("OOMKilled"):
            limit = self._limits.memory_bytes
            return (
                f"ran out of memory (exit code {exit_code}, limit {limit / 2**20:.0f} MiB)"
                if limit
                else (f"ran out of memory (exit code {exit_code})")
            )
        meaning = EXIT_MEANINGS.get(exit_code)
        return f"exited with {exit_code} ({meaning})" if meaning else f"exited with {exit_code}"

    def _tail_text(self) -> str:
        return (
            "; its last output:\n" + "\n".join(f"    {line}" for line in self._tail)
            if self._tail
            else "; no output"
        )

    @contextmanager
    def _time_limit(self, container: str) -> Iterator[None]:
        """Kill ``container`` when its time is over, which also ends the reading of its output."""

        def kill() -> None:
            self._is_late.set()
            with suppress(docker.errors.APIError):  # it has just ended by itself
                self._api_client.kill(container)

        timer = threading.Timer(self._limits.timeout_seconds, kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
