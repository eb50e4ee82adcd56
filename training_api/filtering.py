"""
The filter language of ``jobs.list`` and ``entries:list``, as a syntax tree.

Grammar, from lowest to highest precedence: ``AND`` (also by juxtaposition), ``OR``, ``NOT`` or ``-``, and
comparisons ``path OP value`` with ``= != < <= > >= :``. Values are words or double-quoted strings, and so is
each part of a path after its first (``labels."ml.googleapis.com/trial_id"``). Source: google.aip.dev/160 and
cloud.google.com/logging/docs/view/logging-query-language; functions, wildcards and bare global words are not
supported. docs/requests.md says what a filter means where a field is absent.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from training_api.errors import InvalidFilter

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<paren>[()])
      | (?P<op><=|>=|!=|=|<|>|:)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<word>(?:\."(?:[^"\\]|\\.)*"|[^\s()=<>!:"])+)
    )""",
    re.VERBOSE,
)
#: What neither UTF-8 nor every database can carry.
_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
#: Deep enough for any filter a person writes, shallow enough that recursion stays bounded.
_MAX_DEPTH = 50
#: Source: "The length of a query can't exceed 20,000 characters" (the query language's page).
MAX_LENGTH = 20_000
#: Comparisons. AIP-160 lets a service bound them. SQLite nests at most 1,000 deep, and each is a level.
MAX_TERMS = 500
_MAX_SHOWN = 300
#: Operator -> the comparison, of values or of anything that overloads it.
ORDERINGS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """``path OP value``; ``value`` is unquoted text."""

    path: str
    op: str
    value: str


@dataclass(frozen=True, slots=True)
class Not:
    """Negation."""

    operand: Filter


@dataclass(frozen=True, slots=True)
class And:
    """All operands hold."""

    operands: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one operand holds."""

    operands: tuple[Filter, ...]


Filter = Comparison | Not | And | Or


def parse_filter(text: str) -> Filter | None:
    """
    Return the tree of ``text``, or ``None`` for an empty filter (everything matches).

    Pure.

    :raises InvalidFilter: names the place where reading stopped, or the limit that the filter exceeds.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidFilter(
            f"a filter must be at most {MAX_LENGTH} characters, got {len(text)}; "
            "ask several times with shorter ones"
        )
    if found := _NO_TEXT.search(text):
        raise InvalidFilter(
            f"a filter must be text without NUL and lone surrogates, got {found[0]!r} "
            f"at character {found.start() + 1}; leave it out"
        )
    parser = _Parser(text)
    if not parser.tokens:
        return None
    tree = parser.conjunction(0)
    if parser.place < len(parser.tokens):
        parser.fail("AND, OR or the end")
    return tree


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.terms = 0
        self.tokens: list[tuple[str, str]] = []
        self.place = 0
        offset = 0
        while offset < len(text.rstrip()):
            match = _TOKEN.match(text, offset)
            if not match:
                raise InvalidFilter(f"the filter cannot be read at {text[offset : offset + 20]!r}")
            kind = match.lastgroup or ""
            self.tokens.append((kind, match[kind]))
            offset = match.end()

    def fail(self, expected: str) -> None:
        found = self.tokens[self.place][1] if self.place < len(self.tokens) else "the end"
        raise InvalidFilter(
            f"the filter needs {expected} where it has {shortened(found)!r}: {shortened(self.text)!r}"
        )

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.place] if self.place < len(self.tokens) else ("end", "")

    def take(self, kind: str, value: str | None = None) -> bool:
        found_kind, found = self.peek()
        if found_kind == kind and (value is None or found == value):
            self.place += 1
            return True
        return False

    def conjunction(self, depth: int) -> Filter:
        if depth > _MAX_DEPTH:
            raise InvalidFilter(f"a filter may nest at most {_MAX_DEPTH} deep")
        operands = [self.disjunction(depth)]
        while self.take("word", "AND") or self._starts_operand():
            operands.append(self.disjunction(depth))
        return operands[0] if len(operands) == 1 else And(tuple(operands))

    def disjunction(self, depth: int) -> Filter:
        operands = [self.negation(depth)]
        while self.take("word", "OR"):
            operands.append(self.negation(depth))
        return operands[0] if len(operands) == 1 else Or(tuple(operands))

    def _starts_operand(self) -> bool:
        kind, value = self.peek()
        return (kind == "word" and value != "OR") or (kind, value) == ("paren", "(")

    def negation(self, depth: int) -> Filter:
        if self.take("word", "NOT") or self.take("word", "-"):
            return Not(self.negation_guard(depth))
        kind, value = self.peek()
        if kind == "word" and value.startswith("-") and len(value) > 1:
            self.tokens[self.place] = (kind, value[1:])
            return Not(self.operand(depth))
        return self.operand(depth)

    def negation_guard(self, depth: int) -> Filter:
        if depth > _MAX_DEPTH:
            raise InvalidFilter(f"a filter may nest at most {_MAX_DEPTH} deep")
        return self.negation(depth + 1)

    def operand(self, depth: int) -> Filter:
        if self.take("paren", "("):
            inner = self.conjunction(depth + 1)
            if not self.take("paren", ")"):
                self.fail("')'")
            return inner
        return self.comparison()

    def comparison(self) -> Comparison:
        self.terms += 1
        if self.terms > MAX_TERMS:
            raise InvalidFilter(
                f"a filter must have at most {MAX_TERMS} comparisons, got more; ask several times with fewer"
            )
        kind, path = self.peek()
        if kind != "word":
            self.fail("a field name")
        self.place += 1
        op_kind, op = self.peek()
        if op_kind != "op":
            self.fail(f"a comparison after {shortened(path)!r}")
        self.place += 1
        kind, value = self.peek()
        if kind not in ("word", "string"):
            self.fail(f"a value after '{shortened(path)} {op}'")
        self.place += 1
        if kind == "string":
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        return Comparison(_unquoted(path), op, value)


def moment_of(asked: Comparison) -> datetime:
    """Return the time that a comparison is with. :raises InvalidFilter: it is none."""
    try:
        moment = datetime.fromisoformat(asked.value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidFilter(
            f"{asked.path!r} needs an RFC 3339 time like '2026-01-31T12:00:00Z', got {shortened(asked.value)!r}"
        ) from error


def shortened(text: str) -> str:
    """Return the beginning of ``text``, as a message shows it."""
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _unquoted(path: str) -> str:
    """Return ``labels."ml.googleapis.com/trial_id"`` without quotes, as fields are named."""
    return re.sub(r'\."((?:[^"\\]|\\.)*)"', lambda match: "." + re.sub(r"\\(.)", r"\1", match[1]), path)


def quoted(text: str) -> str:
    """Return ``text`` as a string of the filter language, quotes included. Pure."""
    escaped = re.sub(r'(["\\])', r"\\\1", text)
    return f'"{escaped}"'
