"""``$(NAME)`` in the variables of a container."""

from __future__ import annotations

import pytest

from training_api.dialects.vertex_v1.variables import expanded, variables_of


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$(A)/x", "1/x"),
        ("$(NOPE)", "$(NOPE)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $() $(", "$A ${A} $() $("),
        ("", ""),
    ],
)
def test_a_reference_becomes_the_value_or_stays(text: str, found: str) -> None:
    assert expanded(text, {"A": "1"}) == found


def test_variables_see_those_before_them_and_no_later_ones() -> None:
    given = [{"name": "B", "value": "$(A)$(C)"}, {"name": "C", "value": "$(B)!"}, {"name": "EMPTY"}]

    assert variables_of(given, {"A": "1"}) == {"A": "1", "B": "1$(C)", "C": "1$(C)!", "EMPTY": ""}
