"""Who is promoted: the better one, if that is no chance and the gain is worth it."""

from __future__ import annotations

import json

import pytest

from container_training.work.models.promotion import (
    Decision,
    Evaluation,
    PromotionRule,
    decide,
    parse_evaluation,
)
from training_api.errors import EvaluationInvalid


def make_evaluation(correct: str, *, digest: str = "a" * 64) -> Evaluation:
    return Evaluation(examples_sha256=digest, correct=correct, model="gs://b/m#1")


def decided(challenger: str, champion: str | None, **rule: float) -> Decision:
    return decide(
        make_evaluation(challenger),
        None if champion is None else make_evaluation(champion),
        PromotionRule(**rule),
        challenger_id="new",
        champion_id=None if champion is None else "old",
        champion_generation=7,
    )


def test_a_challenger_that_wins_often_enough_is_promoted() -> None:
    decision = decided("1" * 100, "1" * 90 + "0" * 10)

    assert decision.promote
    assert (decision.won, decision.lost) == (10, 0)
    assert decision.p_value == pytest.approx(2**-10)
    assert decision.gain == pytest.approx(0.1)
    assert "10 examples only the challenger has right" in decision.why


def test_a_gain_that_may_be_chance_is_not_enough() -> None:
    decision = decided("1" * 100, "1" * 96 + "0" * 4)

    assert not decision.promote
    assert decision.p_value == pytest.approx(1 / 16)


def test_a_gain_below_the_minimum_is_not_enough() -> None:
    decision = decided("1" * 100, "1" * 90 + "0" * 10, min_gain=0.11)

    assert not decision.promote


def test_a_worse_challenger_is_refused_whatever_the_rule() -> None:
    decision = decided("0" * 100, "1" * 100, alpha=0.999)

    assert not decision.promote
    assert decision.gain == -1


def test_models_that_are_the_same_leave_the_champion() -> None:
    assert not decided("1" * 100, "1" * 100, alpha=0.999, min_gain=0).promote


def test_an_accuracy_below_the_floor_is_refused_also_if_better() -> None:
    assert not decided("1" * 30 + "0" * 70, "0" * 100, min_accuracy=0.5).promote


@pytest.mark.parametrize(("floor", "promote"), [(0.0, True), (0.9, True), (0.95, False)])
def test_the_first_model_has_to_reach_the_floor_only(floor: float, promote: bool) -> None:
    decision = decided("1" * 90 + "0" * 10, None, min_accuracy=floor)

    assert decision.promote is promote
    assert decision.champion is None
    assert decision.p_value is None


@pytest.mark.parametrize("other", [make_evaluation("11", digest="b" * 64), make_evaluation("111")])
def test_models_that_saw_other_examples_are_not_compared(other: Evaluation) -> None:
    with pytest.raises(EvaluationInvalid, match="the same ones"):
        decide(
            make_evaluation("11"),
            other,
            PromotionRule(),
            challenger_id="new",
            champion_id="old",
            champion_generation=1,
        )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        json.dumps({"examples_sha256": "a" * 64, "correct": "", "model": "m"}).encode(),
        json.dumps({"examples_sha256": "a" * 64, "correct": "102", "model": "m"}).encode(),
        json.dumps({"examples_sha256": "x", "correct": "1", "model": "m"}).encode(),
    ],
)
def test_what_is_no_evaluation_is_refused_by_its_address(content: bytes) -> None:
    with pytest.raises(EvaluationInvalid, match=r"gs://b/evaluation\.json must be an evaluation"):
        parse_evaluation(content, "gs://b/evaluation.json")
