"""
A job file (the guide's ``config.yaml``) as the wire's Job.

Every key and value is checked; each problem has its line.

What reads YAML hands over nodes (``container_training/work/submission/job_file_reader.py``); what they may
hold is decided here. YAML 1.1 and 1.2 disagree on plain values; what either of them reads as text is text
here: ``no``, ``010``, ``12:30`` and ``1e3``, but not ``true``, ``10`` and ``2.11``. Fields that hold numbers
take them from text too, so that nothing is lost.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, TypeAlias, get_args, get_origin

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.errors import FieldViolation, InvalidJobSpec
from training_api.wire import WireModel

#: Stands for the file as a whole in a ``FieldViolation``: the argument of the operator that names it.
WHOLE_FILE = "config_file"

_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]{0,39})")
_NUMBER = re.compile(r"([-+]?(0|[1-9][0-9]{0,299})\.[0-9]{0,299}|\.[0-9]{1,299})([eE][-+][0-9]{1,9})?")
_NO_NUMBER = {".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "-.inf", "-.Inf", "-.INF"}
#: Shown of a value that is refused.
_SHOWN = 80
#: Named one by one; of more, which are one mistake, the number is said.
MAX_PROBLEMS = 100

_Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarNode:
    """
    One value.

    :param line: 1 and up, as in every node.
    :param is_plain: written without quotes, so that it may be more than text.
    :param problem: why the reader refuses it, if it does; as in every node.
    """

    line: int
    text: str
    is_plain: bool = True
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceNode:
    """A list."""

    line: int
    items: tuple[Node, ...]
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingNode:
    """Keys and values in the order of the file; a key may come twice, and need not be text."""

    line: int
    pairs: tuple[tuple[Node, Node], ...]
    problem: str | None = None


Node: TypeAlias = ScalarNode | SequenceNode | MappingNode


def job_from_nodes(root: Node | None, file: str) -> dict[str, Any]:
    """
    Return the ``Job`` resource that a file describes, under the wire's names.

    Any subset of it, perhaps nothing.

    Pure. snake_case names are accepted as the wire models accept them; fields without a value are left out.
    The rules between fields are ``job_spec_from_wire``'s.

    :param root: what the file holds; ``None``: nothing.
    :param file: its name in messages.
    :raises InvalidJobSpec: unknown and duplicate keys, wrong types; all of them, in the order of the lines,
        at most ``MAX_PROBLEMS`` by name.
    """
    if root is None or (isinstance(root, ScalarNode) and not root.problem and _plain_value(root) is None):
        return {}
    if not isinstance(root, MappingNode):
        raise file_error(
            file, root.line, root.problem or f"must be a mapping of the Job resource, got {_shown(root)}"
        )
    reader = _Reader()
    values = reader.value(root, Job, (), root.line)
    job: Job | None = None
    try:
        job = Job.model_validate(values)
    except ValidationError as error:
        for detail in error.errors():
            reader.add_wrong_type(detail["loc"], detail["msg"])
    if reader.problems or job is None:
        raise InvalidJobSpec(reader.violations(file))
    return job.to_wire()


def file_error(file: str, line: int | None, description: str, *, column: int | None = None) -> InvalidJobSpec:
    """
    Return the error of a file that cannot be read.

    Line and column count from 1, if there is one.
    """
    place = ":".join(str(part) for part in (file, line, column) if part is not None)
    return InvalidJobSpec.of(WHOLE_FILE, f"{place}: {description}")


@cache
def wire_names(model: type[WireModel]) -> Mapping[str, str]:
    """
    Return the names that ``model`` accepts for its fields, and the wire's name of each.

    camelCase and snake_case.
    """
    aliases = {name: field.alias or name for name, field in model.model_fields.items()}
    return {**aliases, **{alias: alias for alias in aliases.values()}}


def part_of(model: type[WireModel], name: str) -> type[WireModel] | None:
    """Return the model of the field with the wire's name ``name``, if it holds one."""
    part = _fields(model).get(name)
    return part if isinstance(part, type) and issubclass(part, WireModel) else None


class _Reader:
    """Turns nodes into plain values and remembers where each came from."""

    def __init__(self) -> None:
        self.problems: list[tuple[int, _Path, str]] = []
        self._seen: dict[_Path, tuple[int, Node, Any]] = {}
        self._refused: set[_Path] = set()

    def add(self, line: int, path: _Path, text: str) -> None:
        self.problems.append((line, path, text))

    def violations(self, file: str) -> list[FieldViolation]:
        """Return the problems in the order of the lines."""
        problems = sorted(self.problems, key=lambda problem: problem[0])
        named = [
            FieldViolation(field=_shown_path(path), description=f"{file}:{line}: {text}")
            for line, path, text in problems[:MAX_PROBLEMS]
        ]
        if len(problems) > MAX_PROBLEMS:
            line, more = problems[MAX_PROBLEMS][0], len(problems) - MAX_PROBLEMS
            named.append(
                FieldViolation(field=WHOLE_FILE, description=f"{file}:{line}: and {more} problems more")
            )
        return named

    def value(self, node: Node, expected: Any, path: _Path, line: int) -> Any:
        """Return what ``node`` holds, where ``expected`` is wanted; ``line`` is that of its key."""
        self._seen[path] = (line, node, expected)
        if node.problem:
            self._refuse(node.line, path, node.problem)
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, expected, path)
        if isinstance(node, SequenceNode):
            inner = _bare(get_args(expected)[0]) if get_origin(expected) is list else Any
            return [self.value(item, inner, (*path, n), item.line) for n, item in enumerate(node.items)]
        value = _plain_value(node)
        if isinstance(value, bool) and expected in (int, float):
            self._refuse(line, path, f"{_rule(expected)}, got {node.text}")
        return value

    def add_wrong_type(self, location: _Path, message: str) -> None:
        """Add what pydantic found, in the words of a file."""
        path = location
        while path not in self._seen:
            path = path[:-1]
        if path in self._refused:
            return
        line, node, expected = self._seen[path]
        text = f"{_rule(expected) or message}, got {_shown(node)}"
        if isinstance(node, ScalarNode) and expected is str and _plain_value(node) is not None:
            text += f" (put it in quotes: '{node.text}')"
        if isinstance(node, ScalarNode) and isinstance(expected, type) and issubclass(expected, Enum):
            text += _nearest(node.text.upper().replace("-", "_"), [str(each.value) for each in expected])
        self.add(line, path, text)

    def _refuse(self, line: int, path: _Path, text: str) -> None:
        """Add the only problem that is to be named at ``path``."""
        self.add(line, path, text)
        self._refused.add(path)

    def _mapping(self, node: MappingNode, expected: Any, path: _Path) -> dict[str, Any]:
        model = expected if isinstance(expected, type) and issubclass(expected, WireModel) else None
        fields: Mapping[str, Any] = _fields(model) if model else {}
        inner = get_args(expected)[1] if get_origin(expected) is dict else Any
        names: Mapping[str, str] = wire_names(model) if model else {}
        lines: dict[str, int] = {}
        values: dict[str, Any] = {}
        for key, value in node.pairs:
            if not isinstance(key, ScalarNode) or key.problem:
                problem = key.problem or f"a key must be text, got {_shown(key)}"
                self.add(key.line, path, problem)
                continue
            name = names.get(key.text, key.text)
            if name in lines:
                self.add(key.line, (*path, name), f"duplicate key, it is on line {lines[name]} already")
                continue
            lines[name] = key.line
            if model and key.text not in names:
                self.add(key.line, (*path, name), f"unknown key{self._hint(key.text, model)}")
                continue
            values[name] = self.value(value, fields.get(name, inner), (*path, name), key.line)
        return {name: value for name, value in values.items() if value is not None} if model else values

    def _hint(self, key: str, model: type[WireModel]) -> str:
        return _hint(key, model) if len(self.problems) < MAX_PROBLEMS else ""


def _plain_value(node: ScalarNode) -> str | int | float | bool | None:
    text = node.text
    if not node.is_plain:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if text in _NO_NUMBER:
        return float(text.replace(".", ""))
    if _NUMBER.fullmatch(text):
        return float(text)
    return text


@cache
def _fields(model: type[WireModel]) -> Mapping[str, Any]:
    """
    Return the wire's names of the fields and their values.

    Without ``None`` and annotations.
    """
    return {field.alias or name: _bare(field.annotation) for name, field in model.model_fields.items()}


def _bare(annotation: Any) -> Any:
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return _bare(arguments[0])
    if type(None) in arguments:
        return _bare(next(part for part in arguments if part is not type(None)))
    return annotation


def _rule(expected: Any) -> str:
    if isinstance(expected, type) and issubclass(expected, Enum):
        return f"must be one of {', '.join(str(each.value) for each in expected)}"
    if get_origin(expected) is dict or (isinstance(expected, type) and issubclass(expected, WireModel)):
        return "must be a mapping"
    if get_origin(expected) is list:
        return "must be a list"
    words = {str: "text", int: "a whole number in its range", float: "a number", bool: "true or false"}
    return f"must be {words[expected]}" if expected in words else ""


def _shown(node: Node) -> str:
    if isinstance(node, MappingNode):
        return "a mapping"
    if isinstance(node, SequenceNode):
        return "a list"
    text = node.text if len(node.text) <= _SHOWN else f"{node.text[:_SHOWN]}..."
    if _plain_value(node) is None:
        return "nothing"
    return repr(text) if isinstance(_plain_value(node), str) else text


def _shown_path(path: _Path) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part[:_SHOWN]}" for part in path)
    return text.removeprefix(".") or WHOLE_FILE


def _hint(key: str, model: type[WireModel]) -> str:
    """Return where ``key`` belongs, or else the nearest key that ``model`` has."""
    name = to_camel(key) if "_" in key else key
    if name not in _fields(model):
        places = [place for place, part in _places() if name in _fields(part)]
        if places:
            return f", it belongs into {' or '.join(places)}"
    return _nearest(name, list(_fields(model)))


def _nearest(word: str, known: list[str]) -> str:
    found = difflib.get_close_matches(word[:_SHOWN], known, n=1)
    return f", did you mean {found[0]!r}?" if found else ""


@cache
def _places() -> list[tuple[str, type[WireModel]]]:
    """Return the objects that a request may hold, with their paths."""
    places: list[tuple[str, type[WireModel]]] = [("the top level", Job)]
    waiting: list[tuple[str, type[WireModel]]] = [("trainingInput", TrainingInput)]
    while waiting:
        path, model = waiting.pop(0)
        places.append((path, model))
        for name, held in _fields(model).items():
            if get_origin(held) is list:
                name, held = f"{name}[]", _bare(get_args(held)[0])
            if isinstance(held, type) and issubclass(held, WireModel):
                waiting.append((f"{path}.{name}", held))
    return places
