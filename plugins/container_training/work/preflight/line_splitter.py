"""Lines of text out of a container's output, which arrives in pieces."""

from __future__ import annotations

import codecs
import re

#: A line longer than this is handed on in pieces.
MAX_LINE_CHARACTERS = 16_384


class LineSplitter:
    """Makes lines of UTF-8 that arrives in pieces; a progress bar's redrawn line counts once, as last drawn."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._pending = ""

    def feed(self, chunk: bytes) -> list[str]:
        """Return the lines that ``chunk`` completes."""
        *lines, self._pending = (self._pending + self._decoder.decode(chunk)).split("\n")
        if len(self._pending) > MAX_LINE_CHARACTERS:
            lines.append(self._pending)
            self._pending = ""
        return [_last_drawn(line) for line in lines]

    def finish(self) -> list[str]:
        """Return what came after the last line end."""
        rest = self._pending + self._decoder.decode(b"", final=True)
        self._pending = ""
        return [_last_drawn(rest)] if rest else []


def _last_drawn(line: str) -> str:
    return re.split(r"\r", line.rstrip("\r"))[-1]
