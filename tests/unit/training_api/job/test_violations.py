"""Collecting what is wrong with a request."""

from __future__ import annotations

import re

import pytest

from training_api.errors import FieldViolation
from training_api.job.violations import Violations

DIGITS = re.compile("[0-9]+")


def test_rules_are_kept_in_the_order_in_which_they_were_broken() -> None:
    rules = Violations()

    rules.add("b", "is bad")
    rules.check_form("a", "x", DIGITS, "digits")
    rules.add("b", "is bad")

    assert rules.found == [
        FieldViolation(field="b", description="is bad"),
        FieldViolation(field="a", description="must be digits; got 'x'"),
        FieldViolation(field="b", description="is bad"),
    ]


@pytest.mark.parametrize("text", [None, "", "1", "123"])
def test_an_unset_field_and_one_of_the_form_break_no_rule(text: str | None) -> None:
    rules = Violations()

    rules.check_form("a", text, DIGITS, "digits")

    assert rules.found == []


@pytest.mark.parametrize("text", ["1 ", "x1", "12\n", " "])
def test_the_form_is_that_of_the_whole_text(text: str) -> None:
    rules = Violations()

    rules.check_form("a", text, DIGITS, "digits")

    assert [each.description for each in rules.found] == [f"must be digits; got {text!r}"]
