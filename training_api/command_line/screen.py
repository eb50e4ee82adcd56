"""
What a person sees: results on standard output, the rest on standard error.

Plain text if there is no terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from training_api.command_line.cells import printable

#: Wide enough that no pipe ever gets a cut or folded line.
_PIPE_WIDTH = 100_000


class Screen:
    """
    Standard output for results, standard error for the rest.

    rich follows ``NO_COLOR`` and ``TERM``.

    :param as_json: results as JSON.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.out = _console(stderr=False)
        self.err = _console(stderr=True)

    @property
    def progress(self) -> Console:
        """
        Where progress is drawn: with the results on one terminal.

        So the two do not disturb each other.
        """
        return self.out if self.out.is_terminal else self.err

    def say(self, text: str) -> None:
        """Print something that is no result."""
        self.err.print(printable(text), soft_wrap=True)

    def show_json(self, document: dict[str, Any]) -> None:
        """Print one JSON document."""
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    def show_lines(self, lines: Iterable[str]) -> None:
        """Print the lines of a result; those that end in a colon and are not indented are headings."""
        for line in lines:
            is_heading = line.endswith(":") and not line.startswith(" ")
            self.out.print(printable(line), style="bold" if is_heading else None, soft_wrap=True)


def table(*columns: str, last: str) -> Table:
    """Return an empty table; all columns are as wide as their cells, but ``last`` is folded."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, no_wrap=True)
    made.add_column(last, overflow="fold")
    return made


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        return console
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=_PIPE_WIDTH)
