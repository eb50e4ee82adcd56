"""Markdown from the little reStructuredText that this project's docstrings use."""

from __future__ import annotations

import re
import textwrap

#: Of the pages; below the limit of 160 that ``tests/unit/test_line_lengths.py`` holds.
WIDTH = 130

_LITERAL = re.compile(r"``(.+?)``")
_ROLE = re.compile(r":\w+:`~?(?:[\w.]+\.)?(\w+)`")
_CODE = re.compile(r"`[^`]*`")
#: In place of a blank within code, which must stay on one line.
_HELD = "\x00"


def inline(text: str) -> str:
    """Return ``text`` with its literals and references as Markdown's code."""
    return _LITERAL.sub(r"`\1`", _ROLE.sub(r"`\1`", text))


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a docstring, each filled to the width of a page."""
    return [_fill(inline(" ".join(part.split()))) for part in text.strip().split("\n\n") if part.strip()]


def bullet(name: str, default: str, text: str) -> str:
    """Return one entry of a list of arguments."""
    head = f"{name} ({default})" if default else name
    return _fill(f"- {head}: {text}", "  ")


def _fill(text: str, indent: str = "") -> str:
    # A dash at the start of a line would begin a list.
    held = _CODE.sub(lambda match: match[0].replace(" ", _HELD), text).replace(" - ", f"{_HELD}- ")
    filled = textwrap.fill(
        held, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return filled.replace(_HELD, " ")
