"""Python source of values, as ruff formats it."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container_training.work.migration.python_text import LINE_WIDTH, Code, literal, text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(st.text())
def test_a_string_reads_back_as_itself_on_one_line(value: str) -> None:
    source = text(value)

    assert ast.literal_eval(source) == value
    assert len(source.splitlines()) == 1
    assert source.isprintable()


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ("", '""'),
        ("it's", '"it\'s"'),
        ('say "no"', "'say \"no\"'"),
        ("'\"", '"\'\\""'),
        ("a\\b\n\t", '"a\\\\b\\n\\t"'),
        ("ü€", '"ü€"'),
        ("\x00\u200b\U000e0001", '"\\x00\\u200b\\U000e0001"'),
    ],
)
def test_quotes_are_those_that_need_fewer_escapes(value: str, source: str) -> None:
    assert text(value) == source


@given(value=VALUES, used=st.integers(0, LINE_WIDTH), indent=st.integers(0, 3))
def test_any_value_reads_back_as_itself(value: Any, used: int, indent: int) -> None:
    assert ast.literal_eval(literal(value, used, indent).strip()) == value


def test_what_fits_stays_on_its_line_and_what_does_not_has_an_item_a_line() -> None:
    words = ["--epochs", "10"]

    assert literal(words, LINE_WIDTH - len('["--epochs", "10"]'), 1) == '["--epochs", "10"]'
    assert literal(words, LINE_WIDTH, 1) == '[\n        "--epochs",\n        "10",\n    ]'
    assert literal({"a": ["b"]}, LINE_WIDTH, 0) == '{\n    "a": ["b"],\n}'


def test_an_expression_stands_as_it_is() -> None:
    assert literal({"a": [Code("Param(3)")]}, 0, 0) == '{"a": [Param(3)]}'
