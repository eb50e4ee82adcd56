"""Values that templates leave behind: numbers, flags and times, or nothing."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from container_training.work.template_values import connections, flag, is_unset, number, seconds, whole_number
from training_api.errors import InvalidArgument


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), ("True", True), (" true ", True), (1, True), (None, False), ("", False), ("None", False)],
)
def test_flags(value: Any, expected: bool) -> None:
    assert flag("x", value) is expected


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (flag, "maybe", "x must be true or false, got 'maybe'; write True or False"),
        (number, "many", "x must be a number, got 'many'; write it in digits, like 2.5"),
        (number, True, "x must be a number, got True; write it in digits, like 2.5"),
        (number, "inf", "x must be a number, got 'inf'; write it in digits, like 2.5"),
        (whole_number, "2.5", "x must be a whole number, got '2.5'; write it in digits, like 10"),
        (whole_number, None, "x must be a whole number, got None; write it in digits, like 10"),
        (
            connections,
            "one",
            "x must be a list of connections, got 'one'; give their ids, like ['training_default', 'training_vertex']",
        ),
        (seconds, "soon", "x must be a number of seconds, got 'soon'; write 90 or timedelta(minutes=1.5)"),
    ],
)
def test_what_is_no_value_is_named(read: Any, value: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read("x", value)

    assert str(refused.value) == message


def test_connections_are_named_once_each() -> None:
    assert connections("x", ["a", "b", "a"]) == ["a", "b"]
    assert connections("x", ()) == []
    with pytest.raises(InvalidArgument):
        connections("x", [], at_least=1)


def test_numbers_and_times() -> None:
    assert (number("x", "2.5"), whole_number("x", "9007199254740993")) == (2.5, 9007199254740993)
    assert (seconds("x", timedelta(minutes=1)), seconds("x", "1.5")) == (60.0, 1.5)
    assert [is_unset(value) for value in (None, "", "None", 0, json.dumps(0))] == [
        True,
        True,
        True,
        False,
        False,
    ]
