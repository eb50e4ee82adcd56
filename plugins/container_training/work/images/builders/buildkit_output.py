"""Reads BuildKit's ``--progress=plain``: parallel steps, each line with its step's number."""

from __future__ import annotations

import re
from collections import deque

from container_engines.docker.error_table import Asked, Refusal, refusal_of
from container_engines.docker.errors import engine_error
from container_training.work.images.builders.build_order import OnLine
from container_training.work.images.builders.classic_build import TAIL_LINES, plain_line
from training_api.errors import (
    BuildFailed,
    BuildKitMissing,
    EngineUnavailable,
    PushFailed,
    RegistryUnavailable,
    TrainingError,
)

_LINE = re.compile(r"#(?P<step>\d+) (?P<text>.*)")
_OUTPUT = re.compile(r"\d+\.\d+ (?P<text>.*)")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_EXIT_CODE = re.compile(r"exit code: (\d+)")
_RULE = re.compile(r"-{6,}")
#: Steps that ask a registry; network errors in other steps come from the Dockerfile's own commands.
_REGISTRY_STEPS = ("[internal] load metadata", "resolve image config", "docker-image://")
#: The first word of why an export to a registry failed. Source: buildkit/exporter/containerimage/export.go.
_PUSH = "failed to push "
#: Steps of buildx before it has a builder. Source: buildx/driver/remote, buildx/driver/docker-container.
_BEGINNINGS = ("[internal] waiting for connection", "[internal] booting buildkit")
_NO_ENGINE = ("Cannot connect to the Docker daemon", "error during connect")
_NO_BUILDKIT = ("buildkit not supported by daemon", "BuildKit is enabled but the buildx component is missing")


class BuildkitOutput:
    """Turns the program's lines into log lines; remembers each step's name and last output."""

    def __init__(self, on_line: OnLine) -> None:
        self._on_line = on_line
        self._names: dict[str, str] = {}
        self._tails: dict[str, deque[str]] = {}
        self._failed: tuple[str, str] | None = None
        self._is_summary = False
        #: Lines of no step: why the build could not begin.
        self._others: deque[str] = deque(maxlen=TAIL_LINES)

    def read(self, raw: str) -> None:
        """Read one line."""
        line = plain_line(raw)
        match = _LINE.fullmatch(line)
        if match is not None and not self._is_summary:
            self._read_step(match["step"], match["text"])
        elif _RULE.fullmatch(line):
            self._is_summary = True  # repeats the failed step's lines, then the error
        elif line:
            self._others.append(line)
            if not self._is_summary:
                self._on_line(line)

    def error(self, exit_code: int) -> TrainingError:
        """Return why the build failed."""
        last = self._others[-1] if self._others else ""
        words = [*self._others, self._failed[1] if self._failed else ""]
        for line in words:
            if line.startswith(_NO_ENGINE):
                return EngineUnavailable(f"the Docker Engine did not answer: {line}")
            if any(text in line for text in _NO_BUILDKIT):
                return BuildKitMissing(f"the build needs BuildKit: {line}")
            if refusal_of(line) is Refusal.NO_ROOM:
                return engine_error("build", line)
        if self._failed is None:
            return BuildFailed(f"the build failed: {last or f'docker build exited with {exit_code}'}")
        step, reason = self._failed
        return self._step_error(step, reason)

    def _step_error(self, step: str, reason: str) -> TrainingError:
        name = self._names.get(step, f"step #{step}")
        tail = self._tails.get(step, ())
        if any(refusal_of(line) is Refusal.NO_ROOM for line in tail):
            return engine_error(name, f"no space left on device ({reason})")
        if name.startswith(_BEGINNINGS):
            return EngineUnavailable(f"the remote builder did not answer: {reason}")
        asks_registry = name.startswith(_REGISTRY_STEPS) or reason.startswith(_PUSH)
        if asks_registry and refusal_of(reason, asked=Asked.REGISTRY) is Refusal.NO_REGISTRY:
            return RegistryUnavailable(f"{name}: {reason}")
        if reason.startswith(_PUSH):
            return PushFailed(f"the registry refused the image: {reason}")
        code = _EXIT_CODE.search(reason)
        how = f"exited with {code[1]}" if code else f"failed: {reason}"
        last = "; its last output:\n" + "\n".join(f"    {line}" for line in tail) if tail else ""
        return BuildFailed(f"{name} {how}{last}")

    def _read_step(self, step: str, text: str) -> None:
        if _DIGEST.fullmatch(text):
            return
        if step not in self._names:
            self._names[step] = text
        elif match := _OUTPUT.fullmatch(text):
            text = match["text"]
            self._tails.setdefault(step, deque(maxlen=TAIL_LINES)).append(text)
        elif text.startswith("ERROR: "):
            self._failed = (step, text.removeprefix("ERROR: "))
        self._on_line(f"#{step} {text}")
