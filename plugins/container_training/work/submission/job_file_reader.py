"""
Reading job files: YAML, and so JSON.

Without tags, aliases or anything else that builds objects.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from container_training.work.submission.job_file import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    file_error,
    job_from_nodes,
)
from training_api.errors import InvalidJobSpec

MAX_BYTES = 1024 * 1024
#: A Job has 6 levels; deeper ones are opaque, or a mistake.
MAX_DEPTH = 32

#: JSON allows them in strings as they are; YAML takes them for line breaks, or not at all.
_SPECIAL = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_ALIAS = "aliases are not allowed: write the value out"
_HALF = "holds half of a surrogate pair, which is no character"


def load_job_file(path: Path) -> dict[str, Any]:
    """
    Return the ``Job`` resource in the file ``path``, as ``parse_job_file`` does.

    :raises InvalidJobSpec: also if there is no such file, or it may not be read, or is not UTF-8.
    :raises OSError: the file system failed in another way, which may pass.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise file_error(str(path), None, "no such file") from error
    except (IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise file_error(str(path), None, f"cannot be read: {error.strerror}") from error
    _check_size(len(content), str(path))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise file_error(
            str(path), line, f"must be UTF-8, got the byte 0x{content[error.start]:02x}"
        ) from error
    return parse_job_file(text, str(path))


def parse_job_file(text: str, file: str) -> dict[str, Any]:
    """
    Return the ``Job`` resource that ``text`` describes, under the wire's names.

    Any subset of it, perhaps nothing.

    No file is read. Neither tags nor aliases are accepted, so that the text cannot be more than it looks.

    :param text: YAML or JSON, at most 1 MiB, at most 32 levels deep.
    :param file: its name in messages.
    :raises InvalidJobSpec: every problem as ``<path>: <file>:<line>: <what is wrong>``; broken YAML is the
        only problem of its file and has a column too.
    """
    _check_size(len(text.encode("utf-8", "surrogatepass")), file)
    return job_from_nodes(_tree(text, file), file)


def _check_size(size_bytes: int, file: str) -> None:
    if size_bytes > MAX_BYTES:
        raise file_error(file, None, "must be at most 1 MiB")


def _tree(text: str, file: str) -> Node | None:
    builder = _Builder(file)
    text = _json_as_yaml(text) if text.lstrip().startswith("{") and _is_json(text) else text
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise file_error(
            file, line, f"broken YAML: {error.problem or error.context}", column=column
        ) from error
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise file_error(file, line, f"broken YAML: {error.reason}", column=column) from error
    except InvalidJobSpec:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # PyYAML's own on escapes such as \UFFFFFFFF
        raise file_error(file, builder.line, f"broken YAML: {error}") from error
    return builder.root


@dataclass(slots=True, kw_only=True)
class _Open:
    """A mapping or list whose end has not come yet."""

    line: int
    is_mapping: bool
    problem: str | None
    children: list[Node] = field(default_factory=list)

    def close(self) -> Node:
        if self.is_mapping:
            pairs = tuple(zip(self.children[::2], self.children[1::2], strict=True))
            return MappingNode(line=self.line, pairs=pairs, problem=self.problem)
        return SequenceNode(line=self.line, items=tuple(self.children), problem=self.problem)


class _Builder:
    """
    Builds the nodes from the parser's events.

    Without recursion, so that no depth ends the process.
    """

    def __init__(self, file: str) -> None:
        self.root: Node | None = None
        self.line = 1
        self._file = file
        self._open: list[_Open] = []

    def take(self, event: Any) -> None:
        """Take the next event; what it refuses stands in the node, for the path to be named."""
        self.line = event.start_mark.line + 1 if event.start_mark else self.line
        if isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            raise file_error(self._file, self.line, "must hold one document, here begins a second one")
        if isinstance(event, yaml.CollectionStartEvent):
            if len(self._open) >= MAX_DEPTH:
                raise file_error(self._file, self.line, f"must be at most {MAX_DEPTH} levels deep")
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            self._open.append(_Open(line=self.line, is_mapping=is_mapping, problem=_tag_problem(event)))
        elif isinstance(event, yaml.CollectionEndEvent):
            self._add(self._open.pop().close())
        elif isinstance(event, yaml.ScalarEvent):
            self._add(self._scalar(event))
        elif isinstance(event, yaml.AliasEvent):
            self._add(ScalarNode(line=self.line, text="", problem=_ALIAS))

    def _scalar(self, event: yaml.ScalarEvent) -> ScalarNode:
        text = event.value
        if any("\ud800" <= character <= "\udfff" for character in text):
            # JSON writes characters beyond U+FFFF as two escapes.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            if "\ufffd" in text:
                return ScalarNode(line=self.line, text=text, problem=_HALF)
        is_plain = bool(event.implicit[0])
        return ScalarNode(line=self.line, text=text, is_plain=is_plain, problem=_tag_problem(event))

    def _add(self, node: Node) -> None:
        if self._open:
            self._open[-1].children.append(node)
        else:
            self.root = node


def _tag_problem(event: Any) -> str | None:
    return None if event.tag is None else f"tags are not allowed, got {event.tag!r}"


def _json_as_yaml(json_text: str) -> str:
    """
    Return the same JSON in a form that PyYAML reads.

    No tabs between tokens, special characters escaped in strings.
    """
    return _SPECIAL.sub(lambda match: f"\\u{ord(match[0]):04x}", json_text.replace("\t", " "))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
