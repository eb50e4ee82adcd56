"""``$(NAME)`` in the variables of a container."""

from __future__ import annotations

import pytest

from training_api.dialects.vertex_v1.variables import expanded, expanded_length, variables_of


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


def test_the_length_of_what_is_expanded_is_known_without_expanding_it() -> None:
    doubling = [{"name": "A0", "value": "x" * 10}]
    doubling += [{"name": f"A{place}", "value": f"$(A{place - 1})" * 2} for place in range(1, 100)]

    assert expanded_length(doubling, []) > 10 * 2**99


def test_the_length_is_never_less_than_what_comes_of_it() -> None:
    given = [{"name": "B", "value": "$(A)$(C)$$(A)"}, {"name": "C", "value": "$(B)!$(B)"}, {"name": "EMPTY"}]
    words = ["--b=$(B)", "$(C)", "plain"]
    variables = variables_of(given, {"A": "1" * 1000})

    found = sum(len(variables[name]) for name in ("B", "C", "EMPTY"))
    found += sum(len(expanded(word, variables)) for word in words)

    assert expanded_length(given, words) >= found
