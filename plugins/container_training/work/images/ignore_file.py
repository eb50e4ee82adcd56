"""Reads a build context's ignore file into patterns that docker-py matches as docker does."""

from __future__ import annotations

import re
from pathlib import Path

from training_api.errors import BuildContextMissing

#: A class of characters, or one character that a backslash escapes.
_CLASS_OR_ESCAPE = re.compile(r"\[\^?[^\]]*\]|\\(.)")
#: Characters with a meaning in a pattern; within a class of one character they have none.
_MEANINGFUL = "*?["


def ignore_patterns(directory: Path, dockerfile: str) -> list[str]:
    """
    Return the patterns of what ``docker build`` leaves out; empty without an ignore file.

    ``<Dockerfile>.dockerignore`` beside the Dockerfile replaces ``.dockerignore``, with every builder.

    :raises BuildContextMissing: a line cannot be read as a pattern.

    Source: docs.docker.com/build/concepts/context, ".dockerignore files"; moby/patternmatcher, ``ignorefile``
    (2026-11).
    """
    for file in (directory / f"{dockerfile}.dockerignore", directory / ".dockerignore"):
        if file.is_file():
            lines = file.read_text(encoding="utf-8-sig").splitlines()
            return [pattern for line in lines if (pattern := _pattern(line, file))]
    return []


def _pattern(line: str, file: Path) -> str:
    """Return the pattern of ``line``; empty if it has none."""
    if line.startswith("#"):  # before stripping: an indented one is a pattern, for docker too
        return ""
    text = line.strip()
    sign, rest = ("!", text[1:].strip()) if text.startswith("!") else ("", text)
    if sign and not rest:
        raise BuildContextMissing(f"{file.name}: '!' must be followed by a pattern, got {line!r}")
    return sign + _CLASS_OR_ESCAPE.sub(_as_docker_py_reads_it, rest)


def _as_docker_py_reads_it(match: re.Match[str]) -> str:
    """
    Return a part of one of Go's patterns as docker-py's.

    Go negates a class by ``^`` and escapes by a backslash. docker-py follows Python: ``!``, and no escape.
    """
    escaped = match[1]
    if escaped is None:
        return "[!" + match[0][2:] if match[0].startswith("[^") else match[0]
    return f"[{escaped}]" if escaped in _MEANINGFUL else escaped
