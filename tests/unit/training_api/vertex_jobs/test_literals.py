"""Texts that Vertex AI must not expand, and the one that it must."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from training_api.dialects.vertex_v1.variables import expanded
from training_api.vertex_jobs.literals import folder_args, literal, literal_text


@given(st.text("$()A"))
def test_a_literal_is_expanded_to_its_text(text: str) -> None:
    assert expanded(literal(text), {"A": "expanded!"}) == text
    assert literal_text(literal(text)) == text


def test_most_texts_are_as_they_were() -> None:
    assert literal("--cost=5$ $HOME") == "--cost=5$ $HOME"


def test_each_trial_has_a_folder_of_its_own() -> None:
    first, folder = folder_args("gs://bkt/$(A)/", is_study=True)

    assert first == "--job-dir"
    assert expanded(folder, {"A": "x", "CLOUD_ML_TRIAL_ID": "7"}) == "gs://bkt/$(A)/7"
    assert folder_args("gs://bkt/out", is_study=False) == ("--job-dir", "gs://bkt/out")
    assert folder_args("", is_study=True) == ()
