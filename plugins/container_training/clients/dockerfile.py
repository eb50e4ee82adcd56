"""What a Dockerfile starts from: the only part of it that this project has to understand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?::(?P<operator>[-+])(?P<word>[^}]*))?\}|(?P<plain>\w+))")
_ASSIGNMENT = re.compile(r"(\w+)(?:=(\"[^\"]*\"|'[^']*'|\S*))?")
_FROM = re.compile(r"(?:--\S+\s+)*(?P<image>\S+)(?:\s+as\s+(?P<stage>\S+))?", re.IGNORECASE)
_COPY_FROM = re.compile(r"--from=(\S+)")


def base_images(text: str, build_args: Mapping[str, str]) -> tuple[str, ...]:
    """
    Return the images that the Dockerfile ``text`` starts or copies from, each once, in order.

    Pure. ``scratch``, the file's own build stages, and names that stay empty are left out.

    :param build_args: values of the ARGs before the first FROM; an ARG without one takes its default.

    Source: docs.docker.com/reference/dockerfile, "Understand how ARG and FROM interact".
    """
    values: dict[str, str] = {}
    stages = {"scratch"}
    found: dict[str, None] = {}
    is_global = True
    for instruction, rest in _instructions(text):
        if instruction == "ARG" and is_global:
            for name, default in _ASSIGNMENT.findall(rest):
                values[name] = build_args.get(name, _substitute(default.strip("\"'"), values))
        elif instruction == "FROM" and (match := _FROM.match(rest)):
            is_global = False
            image = _substitute(match["image"], values)
            if image and image.lower() not in stages:
                found[image] = None
            if match["stage"]:
                stages.add(match["stage"].lower())
        elif instruction == "COPY":
            for source in _COPY_FROM.findall(rest):
                if not source.isdigit() and source.lower() not in stages:
                    found[source] = None
    return tuple(found)


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield instruction (upper case) and arguments; comments left out, continued lines joined."""
    pending = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        pending += line.strip()
        if pending.endswith("\\"):
            pending = pending[:-1] + " "
            continue
        instruction, _, rest = pending.partition(" ")
        pending = ""
        if instruction:
            yield instruction.upper(), rest.strip()


def _substitute(text: str, values: Mapping[str, str]) -> str:
    """Return ``text`` with ``$NAME``, ``${NAME}``, ``${NAME:-word}`` and ``${NAME:+word}`` replaced."""

    def value_of(match: re.Match[str]) -> str:
        value = values.get(match["braced"] or match["plain"], "")
        if match["operator"] == "-":
            return value or match["word"]
        if match["operator"] == "+":
            return match["word"] if value else ""
        return value

    return _VARIABLE.sub(value_of, text)
