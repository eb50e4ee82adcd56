"""Reads a Dockerfile's base images, the only part of it that this project has to understand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?::(?P<operator>[-+])(?P<word>[^}]*))?\}|(?P<plain>\w+))")
_ASSIGNMENT = re.compile(r"(\w+)(?:=(\"[^\"]*\"|'[^']*'|\S*))?")
_FROM = re.compile(r"(?:--\S+\s+)*(?P<image>\S+)(?:\s+as\s+(?P<stage>\S+))?", re.IGNORECASE)
_COPY_FROM = re.compile(r"--from=(\S+)")
_MOUNT_FROM = re.compile(r"--mount=(?:\S*,)?from=([^\s,]+)")
#: The first lines may be parser directives, ``# key=value``; anything else ends them.
_DIRECTIVE = re.compile(r"#\s*(\w+)\s*=\s*(\S+)\s*")
#: What the classic builder refuses, by instruction.
_BUILDKIT_OPTIONS = {
    "RUN": ("--mount=", "--network=", "--security="),
    "COPY": ("--chmod=", "--link", "--parents", "--exclude="),
    "ADD": ("--chmod=", "--link", "--checksum=", "--keep-git-dir", "--unpack", "--exclude="),
}
_HEREDOC = re.compile(r"<<-?[\"']?(\w+)")


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
        elif instruction in ("COPY", "RUN"):
            for source in (_COPY_FROM if instruction == "COPY" else _MOUNT_FROM).findall(rest):
                if not source.isdigit() and source.lower() not in stages:
                    found[source] = None
    return tuple(found)


def declares_argument(text: str, name: str) -> bool:
    """Return whether an ARG of the Dockerfile ``text`` declares ``name``. Pure."""
    return any(
        name in dict(_ASSIGNMENT.findall(rest))
        for instruction, rest in _instructions(text)
        if instruction == "ARG"
    )


def buildkit_needs(text: str) -> tuple[str, ...]:
    """
    Return what in the Dockerfile ``text`` needs BuildKit, like ``RUN --mount``.

    Pure.

    Source: docs.docker.com/reference/dockerfile; moby/builder/dockerfile/dispatchers.go, which refuses these
    in the classic builder (20.10 to 28).
    """
    found: dict[str, None] = {}
    lines = {line.strip() for line in text.splitlines()}
    if "syntax" in _directives(text):
        found["# syntax"] = None
    for instruction, rest in _instructions(text):
        for option in _BUILDKIT_OPTIONS.get(instruction, ()):
            if any(word.startswith(option) for word in _options(rest)):
                found[f"{instruction} {option.rstrip('=')}"] = None
        if instruction in ("RUN", "COPY", "ADD") and lines & set(_HEREDOC.findall(rest)):
            found[f"{instruction} <<"] = None
    return tuple(found)


def _directives(text: str) -> dict[str, str]:
    directives = {}
    for line in text.removeprefix("\ufeff").splitlines():
        match = _DIRECTIVE.fullmatch(line.strip())
        if match is None:
            break
        directives[match[1].lower()] = match[2]
    return directives


def _options(rest: str) -> Iterator[str]:
    """Yield the options that an instruction begins with."""
    for word in rest.split():
        if not word.startswith("--"):
            return
        yield word


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
    """Return ``text`` with ``$NAME``, ``${NAME}``, ``${NAME:-word}`` and ``:+word`` replaced."""

    def value_of(match: re.Match[str]) -> str:
        value = values.get(match["braced"] or match["plain"], "")
        if match["operator"] == "-":
            return value or match["word"]
        if match["operator"] == "+":
            return match["word"] if value else ""
        return value

    return _VARIABLE.sub(value_of, text)
