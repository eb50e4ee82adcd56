"""Patterns of names, compared with a slow and plain reading of them."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from object_store.errors import Invalid
from object_store.globs import Glob
from tests.support.speed import scaled

#: Sign of a pattern -> the same as a regular expression.
SIGNS = {
    "*": "[^/]*",
    "**": ".*",
    "**/": "(?:.*/)?",
    "?": "[^/]",
    "[a-b]": "[a-b]",
    "[!a]": "[^/a]",
    "a": "a",
    "b": "b",
    "/": "/",
    ".": r"\.",
    r"\*": r"\*",
}


@st.composite
def patterns(draw: st.DrawFn) -> tuple[str, str]:
    """Return a pattern and the regular expression that it stands for."""
    signs = draw(st.lists(st.sampled_from(sorted(SIGNS)), max_size=6))
    text, expression = "", ""
    for sign in signs:
        if text.endswith("*") and sign.startswith(("*", "/")):
            continue
        text, expression = text + sign, expression + SIGNS[sign]
    return text, expression


@given(st.lists(patterns(), min_size=1, max_size=3), patterns(), st.text("ab/.*", max_size=8), st.booleans())
def test_a_pattern_has_the_names_that_the_expression_has(
    ways: list[tuple[str, str]], tail: tuple[str, str], name: str, in_braces: bool
) -> None:
    ways = ways if in_braces else ways[:1]
    if ways[0][0].endswith("*") and not in_braces and tail[0].startswith(("*", "/")):
        return
    pattern, expression = (",".join(way[side] for way in ways) for side in (0, 1))
    pattern = "{" + pattern + "}" if in_braces else pattern
    expression = "|".join(way[1] for way in ways)

    matches = Glob(pattern + tail[0]).matches(name)

    assert matches is bool(re.fullmatch(f"(?:{expression}){tail[1]}", name, re.DOTALL))


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("a,b", "a,b", True),
        ("{a,{b,c}d}", "cd", True),
        ("{a,{b,c}d}", "ad", False),
        ("[]a]", "]", True),
        ("[!]a]", "]", False),
        ("[!]a]", "b", True),
        ("[a&&b]", "&", True),
        ("[.-0]", "/", False),
        ("[z-a]", "m", False),
        ("a[", "a[", True),
        ("a\\", "a\\", True),
        ("a\nb*", "a\nbc", True),
        ("?", "\U0010ffff", True),
        ("", "", True),
    ],
)
def test_odd_patterns_have_one_meaning(pattern: str, name: str, matches: bool) -> None:
    assert Glob(pattern).matches(name) is matches


@pytest.mark.parametrize("pattern", ["{a", "a}", "{a,{b}", "a" * 1025, "*a" * 33, "[a]" * 33, "{" * 600])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(Invalid, match="matchGlob"):
        Glob(pattern)


@pytest.mark.parametrize("pattern", ["*a" * 31 + "b", "**a" * 31 + "b", "{a,a*}" * 31 + "b"])
def test_no_pattern_takes_long(pattern: str) -> None:
    begun = time.monotonic()

    assert not Glob(pattern).matches("a" * 1000)

    assert time.monotonic() - begun < scaled(10)
