"""Runs an image once on a Docker Engine, with limits, and passes its output on."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from docker.api import APIClient

from container_engines.confinement import PIDS_LIMIT
from container_engines.docker.driver import ContainerLaunch, ContainerState, DockerDriver
from container_training.work.images.engine import OWNER_LABEL, Cancellation
from container_training.work.preflight.ends import describe_end
from training_api.errors import DiskFull, EngineError, ImageTestFailed, InvalidJobSpec
from training_api.retrying import ENGINE_MAY_DO_LATER

TAIL_LINES = 30
#: Between two polls of a container whose output has ended before it.
_POLL_SECONDS = 0.1
#: The two outputs of a container are read in parallel: a line may be older than one before it.
_OVERLAP_NS = 10**9

#: Called with ``stdout`` or ``stderr``, and the line.
OnOutput = Callable[[str, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """
    What one run may use.

    :param timeout_seconds: from start to exit.
    :param memory_bytes: swap included; ``None``: no limit.
    :param cpus: cores; ``None``: no limit.
    :param pids: processes and threads at the same time.
    """

    timeout_seconds: float
    memory_bytes: int | None = None
    cpus: float | None = None
    pids: int = PIDS_LIMIT

    def __post_init__(self) -> None:
        if self.timeout_seconds <= 0:
            raise InvalidJobSpec.of("timeout", f"must be > 0 s, got {self.timeout_seconds}")
        if self.pids < 1:
            raise InvalidJobSpec.of("pids", f"must be >= 1, got {self.pids}")


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
    Run ``image`` with ``args`` and return how many seconds it ran, once it exited with 0.

    The container reaches this machine as ``host.docker.internal``. It is removed in every case. What an
    earlier run of the same ``owner`` left behind, because its process was killed, is removed first.

    :param owner: who runs it, the same for every attempt; goes into a label.
    :param on_output: called with each line, as it comes.
    :raises ImageTestFailed: it could not start, exited non-zero, ran out of memory, or passed its time limit.
    :raises ImageNotFound: the engine has no such image.
    :raises DiskFull: the engine's disk is full.
    :raises EngineError: as ``engine_errors``.
    """
    driver = DockerDriver(api_client)
    driver.remove_all(f"{OWNER_LABEL}={owner}")
    container = driver.create(
        ContainerLaunch(
            image=image,
            args=args,
            environment=environment or {},
            labels={OWNER_LABEL: owner},
            host_name=hostname or "",
            memory_bytes=limits.memory_bytes,
            cpus=limits.cpus,
            pids_limit=limits.pids,
        )
    )
    try:
        return _Run(driver, container, image, limits, on_output, cancellation or Cancellation()).seconds()
    finally:
        driver.remove(container)


class _Run:
    """One container and its run."""

    def __init__(
        self,
        driver: DockerDriver,
        container: str,
        image: str,
        limits: RunLimits,
        on_output: OnOutput,
        cancellation: Cancellation,
    ) -> None:
        self._driver = driver
        self._container = container
        self._image = image
        self._limits = limits
        self._cancellation = cancellation
        self._on_output = on_output
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._is_late = threading.Event()

    def seconds(self) -> float:
        """Start the container and wait for its end; return how long it ran."""
        started = time.monotonic()
        try:
            with (
                self._cancellation.stops_with(lambda: self._driver.remove(self._container)),
                self._time_limit(),
            ):
                self._start()
                if self._is_late.is_set():
                    self._kill()  # what was not started yet could not be killed
                end = self._follow()
        except EngineError:
            if not self._cancellation.is_cancelled:  # the cancel removed it
                raise
            end = None
        if self._cancellation.is_cancelled:
            raise ImageTestFailed(f"the run of {self._image} was cancelled")
        if self._is_late.is_set():
            raise ImageTestFailed(
                f"{self._image} did not end within its time limit of {self._limits.timeout_seconds:g} s, and was"
                f" killed{self._tail_text()}"
            )
        if end is None:
            raise ImageTestFailed(f"the container of {self._image} was removed from outside")
        if end.exit_code:
            how = describe_end(
                end.exit_code, out_of_memory=end.out_of_memory, memory_bytes=self._limits.memory_bytes
            )
            raise ImageTestFailed(f"{self._image} {how}{self._tail_text()}")
        return time.monotonic() - started

    def _start(self) -> None:
        try:
            self._driver.start(self._container)
        except EngineError as error:
            if self._cancellation.is_cancelled or isinstance(error, (*ENGINE_MAY_DO_LATER, DiskFull)):
                raise
            # For example an ENTRYPOINT that is not in the image.
            raise ImageTestFailed(f"{self._image} could not be started: {error}") from error

    def _follow(self) -> ContainerState | None:
        """Pass the output on until the container has ended; return its state, ``None``: removed."""
        seen: dict[str, int] = {}
        while True:
            # Asked before reading: output is complete only if it is read after the end.
            state = self._driver.look_at(self._container)
            if state is None:
                return None
            since = max(max(seen.values(), default=0) - _OVERLAP_NS, 0)
            before = dict(seen)
            for line in self._driver.read_logs(self._container, since, follow=not state.has_ended):
                is_new = line.timestamp_ns > before.get(line.stream, -1)
                if is_new and (line.is_whole or state.has_ended):
                    seen[line.stream] = line.timestamp_ns
                    self._line(line.stream, line.text)
            if state.has_ended:
                # That its memory was full may become known a moment after the end.
                return self._driver.look_at(self._container)
            time.sleep(_POLL_SECONDS)

    def _line(self, stream: str, text: str) -> None:
        line = last_drawn(text)
        self._tail.append(line)
        self._on_output(stream, line)

    def _tail_text(self) -> str:
        return (
            "; its last output:\n" + "\n".join(f"    {line}" for line in self._tail)
            if self._tail
            else "; no output"
        )

    def _kill(self) -> None:
        with suppress(EngineError):  # it has just ended by itself, or has not started yet
            self._driver.kill(self._container)

    @contextmanager
    def _time_limit(self) -> Iterator[None]:
        """Kill the container when its time is over; that also ends the reading of its output."""

        def kill() -> None:
            self._is_late.set()
            self._kill()

        timer = threading.Timer(self._limits.timeout_seconds, kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # a kill that is under way must not outlive the client


def last_drawn(line: str) -> str:
    """Return what remains visible of a line that a progress bar redraws. Pure."""
    return line.rsplit("\r", 1)[-1]
