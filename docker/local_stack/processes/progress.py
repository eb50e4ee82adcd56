"""Progress of long steps, as plain lines on standard error; standard output is for results."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO


@dataclass(slots=True)
class Progress:
    """
    Says what is done, and how long it took.

    :param stream: where the lines go; standard error by default.
    :param quiet: say nothing at all.
    """

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    quiet: bool = False

    def say(self, line: str) -> None:
        """Print one line at once, so that it is seen before the next long step."""
        if not self.quiet:
            print(line, file=self.stream, flush=True)

    @contextmanager
    def step(self, doing: str) -> Iterator[None]:
        """Print ``doing`` before the body runs, and the elapsed seconds after it, also if it fails."""
        self.say(f"{doing} ...")
        started = time.monotonic()
        try:
            yield
        except BaseException:
            self.say(f"{doing}: failed after {time.monotonic() - started:.1f} s")
            raise
        self.say(f"{doing}: done in {time.monotonic() - started:.1f} s")
