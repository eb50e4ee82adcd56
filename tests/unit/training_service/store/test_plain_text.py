"""Text that every database takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_service.store.plain_text import json_text, plain_text

#: With halves of surrogate pairs, and NUL.
ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(ANY_TEXT)
def test_any_text_becomes_one_that_can_be_stored(text: str) -> None:
    plain = plain_text(text)

    plain.encode()
    assert "\x00" not in plain
    assert plain_text(plain) == plain


@pytest.mark.extended
@given(
    st.recursive(
        ANY_TEXT | st.integers() | st.none(), lambda each: st.dictionaries(ANY_TEXT, each) | st.lists(each)
    )
)
def test_any_json_becomes_one_that_can_be_stored(value: Any) -> None:
    text = json_text(value)

    assert plain_text(json.dumps(json.loads(text), ensure_ascii=False)) == json.dumps(
        json.loads(text), ensure_ascii=False
    )


@pytest.mark.parametrize("value", ["\\u0000", "\\ud800", "\\\\u0000", "ß\U0001f600", {"a": ["\\u0000"]}])
def test_what_can_be_stored_stays_as_it_is(value: Any) -> None:
    assert json.loads(json_text(value)) == value
