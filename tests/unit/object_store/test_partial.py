"""The parameter ``fields``: what is selected, and what is no selection."""

from __future__ import annotations

from typing import Any

import pytest

from object_store.errors import Invalid
from object_store.partial import parse_fields, select

PAGE = {
    "kind": "list",
    "items": [{"name": "a", "metadata": {"x": "1", "y": "2"}}, {"name": "b", "size": "3"}],
    "next": {"a": {"b": 1, "c": 2}, "d": {"b": 3}},
}


@pytest.mark.parametrize(
    ("fields", "selected"),
    [
        ("kind", {"kind": "list"}),
        ("kind , absent", {"kind": "list"}),
        ("*", PAGE),
        ("items/name", {"items": [{"name": "a"}, {"name": "b"}]}),
        ("items(name,size)", {"items": [{"name": "a"}, {"name": "b", "size": "3"}]}),
        ("items/metadata(y),items/size", {"items": [{"metadata": {"y": "2"}}, {"size": "3"}]}),
        ("next(a/b),next(a/c)", {"next": {"a": {"b": 1, "c": 2}}}),
        ("next/a,next/a/b", {"next": {"a": {"b": 1, "c": 2}}}),
        ("next/a/b,next/a", {"next": {"a": {"b": 1, "c": 2}}}),
        ("next/*/b", {"next": {"a": {"b": 1}, "d": {"b": 3}}}),
        ("kind/deeper", {"kind": "list"}),
    ],
)
def test_what_is_named_is_given(fields: str, selected: dict[str, Any]) -> None:
    assert select(PAGE, parse_fields(fields)) == selected


@pytest.mark.parametrize(
    "fields",
    [
        "",
        " ",
        ",",
        "a,",
        "a(",
        "a()",
        "a(b",
        "a)",
        "(a)",
        "a//b",
        "a/",
        "a b",
        "a;b",
        "é",
        "a(b)c",
        "a(" * 17 + "a" + ")" * 17,
        "/".join("a" * 30),
        "a," * 2048 + "a",
    ],
)
def test_what_is_no_selection_is_refused(fields: str) -> None:
    with pytest.raises(Invalid, match="Invalid field selection"):
        parse_fields(fields)


def test_the_deepest_selection_is_read() -> None:
    fields = "a(" * 16 + "a" + ")" * 16

    assert select({"a": {"b": 1}}, parse_fields(fields)) == {"a": {}}
