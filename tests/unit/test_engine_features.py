"""The table of features by engine says what the marks of the tests say."""

from __future__ import annotations

from docs.tools.engine_features import ENGINES, LACKS, PAGE, filled, proofs


def test_the_table_is_made_from_the_marks() -> None:
    text = PAGE.read_text("utf-8")

    assert "<!-- features by engine -->" in text
    assert text == filled(text), "stale: run `make docs`"


def test_marks_name_features_and_engines_of_the_table() -> None:
    strangers = [proof for proof in proofs() if proof.feature not in LACKS or proof.engine not in ENGINES]

    assert proofs()
    assert strangers == []


def test_what_an_engine_lacks_is_shown_by_no_test() -> None:
    contradictions = [proof for proof in proofs() if proof.engine in LACKS[proof.feature]]

    assert contradictions == [], "take it out of LACKS"
