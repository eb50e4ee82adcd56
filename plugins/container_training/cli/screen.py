"""What a person sees: results on standard output, the rest on standard error."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console

#: Wide enough that no pipe ever gets a folded line.
_PIPE_WIDTH = 100_000
#: A name or a message from elsewhere must not steer the reader's terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def show_json(document: dict[str, Any]) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def show_lines(lines: Iterable[str]) -> None:
    """Print the lines of a result; those that end in a colon and are not indented stand out."""
    console = _console(stderr=False)
    for line in lines:
        is_heading = line.endswith(":") and not line.startswith(" ")
        console.print(_printable(line), style="bold" if is_heading else None, soft_wrap=True)


def say(line: str) -> None:
    """Tell something that is no result."""
    _console(stderr=True).print(_printable(line), soft_wrap=True)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        return console
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=_PIPE_WIDTH)


def _printable(text: str) -> str:
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
