"""Builds with the engine's classic builder, over its API."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from docker.api import APIClient

from container_engines.docker.error_table import Refusal, refusal_of
from container_engines.docker.errors import engine_error, engine_errors
from container_training.work.images.builders.build_order import BuildOrder, OnLine
from container_training.work.images.engine import stoppable_answers
from training_api.errors import BuildFailed, DiskFull, EngineError
from training_api.retrying import ENGINE_MAY_DO_LATER

TAIL_LINES = 30

_STEP = re.compile(r"Step \d+/\d+ : .*")
_EXIT_CODE = re.compile(r"returned a non-zero code: (\d+)")
#: The engine's own lines within a step: they are logged, but are not the step's output.
_ENGINE_WORDS = (" ---> ", "Removing intermediate container")
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def build_classic(api_client: APIClient, order: BuildOrder) -> str:
    """
    Build what ``order`` says; return the last output, in case there is no image then.

    :raises BuildFailed: a step failed, or the build was cancelled.
    :raises DiskFull: the engine's disk has no room.
    :raises EngineUnavailable: the engine does not answer.
    """
    output = _BuildOutput(order.on_line)

    def start() -> Iterable[Mapping[str, Any]]:
        messages: Iterable[Mapping[str, Any]] = api_client.build(
            fileobj=order.archive,
            custom_context=True,
            dockerfile=order.dockerfile,
            tag=str(order.ref),
            buildargs=dict(order.build_args),
            labels=dict(order.labels),
            network_mode=order.network_mode,
            rm=True,
            forcerm=True,
            decode=True,
        )
        return messages

    _follow(api_client, start, output, order)
    return output.tail_text()


def _follow(
    api_client: APIClient,
    start: Callable[[], Iterable[Mapping[str, Any]]],
    output: _BuildOutput,
    order: BuildOrder,
) -> None:
    """Start the build and read its messages until it ends or is cancelled."""
    cancellation = order.cancellation
    try:
        with engine_errors(f"build {order.ref}"), stoppable_answers(api_client, cancellation):
            for message in start():
                if cancellation.is_cancelled:
                    break
                output.read(message)
    except EngineError as error:
        if not cancellation.is_cancelled:  # which cuts the connection
            if isinstance(error, (*ENGINE_MAY_DO_LATER, DiskFull)):
                raise
            # Before the first step: the Dockerfile is empty, or cannot be parsed.
            raise BuildFailed(f"the Dockerfile was refused: {error}") from error
    if cancellation.is_cancelled:
        raise BuildFailed("the build was cancelled")


def plain_line(raw: str) -> str:
    """Return a line of output without colours. Pure."""
    # A progress bar redraws its line after each carriage return; keep the last drawing.
    return _COLOUR.sub("", raw).rstrip().rsplit("\r", 1)[-1]


class _BuildOutput:
    """Turns the engine's messages into lines; remembers the current step and its last output."""

    def __init__(self, on_line: OnLine) -> None:
        self._on_line = on_line
        self._pending = ""
        self._step = "the first step"
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    def read(self, message: Mapping[str, Any]) -> None:
        """Read one message; raise if it is an error."""
        if "error" in message:
            self._flush()
            raise self._error(message)
        if "stream" in message:
            *lines, self._pending = (self._pending + message["stream"]).split("\n")
            for line in lines:
                self._line(line)

    def tail_text(self) -> str:
        """Return the last lines of the step as an indented block, or an empty string."""
        return "; its last output:\n" + "\n".join(f"    {line}" for line in self._tail) if self._tail else ""

    def _flush(self) -> None:
        self._line(self._pending)
        self._pending = ""

    def _line(self, raw: str) -> None:
        line = plain_line(raw)
        if not line:
            return
        if _STEP.fullmatch(line):
            self._step = line
            self._tail.clear()
        elif not line.startswith(_ENGINE_WORDS):
            self._tail.append(line)
        self._on_line(line)

    def _error(self, message: Mapping[str, Any]) -> Exception:
        reason = str(message["error"])
        if any(refusal_of(line) is Refusal.NO_ROOM for line in (reason, *self._tail)):
            return engine_error(self._step, f"no space left on device ({reason})")
        exit_code = _EXIT_CODE.search(reason)
        how = f"exited with {exit_code[1]}" if exit_code else f"failed: {reason}"
        return BuildFailed(f"{self._step} {how}{self.tail_text()}")
