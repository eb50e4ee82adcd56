"""Who is promoted: the better one, if that is no chance and the gain is worth it."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from container_training.work.models.promotion import (
    Contender,
    Decision,
    PromotionRule,
    decide,
    level_of,
    parse_evaluation,
)
from container_training.work.models.versions import HoldOut
from tests.support.bed.model_versions import FIFTH, THIRD, make_contender
from training_api.errors import EvaluationInvalid


def compared(challenger: Contender, champion: Contender | None, *, look: int = 1, **rule: float) -> Decision:
    return decide(challenger, champion, PromotionRule(**rule), champion_generation=7, look=look)


def decided(challenger: str, champion: str | None, *, look: int = 1, **rule: float) -> Decision:
    old = None if champion is None else make_contender("old", champion)
    return compared(make_contender("new", challenger), old, look=look, **rule)


def test_a_challenger_that_wins_often_enough_is_promoted() -> None:
    decision = decided("1" * 100, "1" * 90 + "0" * 10)

    assert decision.promote
    assert (decision.won, decision.lost) == (10, 0)
    assert decision.p_value == pytest.approx(2**-10)
    assert decision.gain == pytest.approx(0.1)
    assert (decision.look, decision.level) == (1, pytest.approx(0.05 / 11))
    assert "10 examples only the challenger has right" in decision.why
    assert "level 0.004545 of look 1 at this hold-out, alpha 0.05" in decision.why


def test_a_gain_that_may_be_chance_is_not_enough() -> None:
    decision = decided("1" * 100, "1" * 96 + "0" * 4)

    assert not decision.promote
    assert decision.p_value == pytest.approx(1 / 16)


def test_what_is_enough_at_the_first_look_is_not_at_a_later_one() -> None:
    better = ("1" * 100, "1" * 91 + "0" * 9)  # p = 1/512

    assert decided(*better, look=1).promote
    assert not decided(*better, look=8).promote


def test_the_levels_of_all_looks_add_up_to_alpha_and_no_more() -> None:
    looks = 10_000
    spent = sum(level_of(look, 0.05) for look in range(1, looks + 1))

    assert spent == pytest.approx(float(Fraction(5, 100) * Fraction(looks, looks + 10)))
    assert sum(level_of(look, 0.05) for look in range(1, 11)) == pytest.approx(0.025)


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
    assert (decision.p_value, decision.look, decision.level) == (None, None, None)


@pytest.mark.parametrize(
    "other", [make_contender("old", "11", digest="b" * 64), make_contender("old", "111")]
)
def test_models_that_saw_other_examples_are_not_compared(other: Contender) -> None:
    with pytest.raises(EvaluationInvalid, match=r"the same ones.*delete champion\.json"):
        compared(make_contender("new", "11"), other)


@pytest.mark.parametrize("who_says", ["challenger", "champion", "both"])
def test_a_row_that_occurs_ten_times_is_no_more_evidence_than_one(who_says: str) -> None:
    # One example of three was won, and it is there ten times; the image of the champion may be an older one.
    rows = ["a"] * 10 + ["b", "c"]
    new, old = (
        make_contender(name, correct, rows=rows if who_says in (kind, "both") else None)
        for name, kind, correct in (("new", "challenger", "1" * 12), ("old", "champion", "0" * 10 + "11"))
    )

    decision = compared(new, old, alpha=0.9)

    assert (decision.examples, decision.won, decision.p_value) == (3, 1, 0.5)
    assert decision.champion_accuracy == pytest.approx(2 / 3)
    assert not decision.promote
    assert decided("1" * 12, "0" * 10 + "11").promote


def test_the_accuracy_of_the_first_model_counts_a_row_once_too() -> None:
    assert compared(make_contender("new", "1110", rows=["a", "a", "a", "b"]), None).challenger_accuracy == 0.5


@pytest.mark.parametrize(
    ("new", "new_evaluated", "old", "old_evaluated", "fits"),
    [
        (FIFTH, FIFTH, FIFTH, FIFTH, True),
        (FIFTH, FIFTH, None, None, True),  # a champion that an earlier release registered
        (FIFTH, None, FIFTH, None, True),  # an evaluation that is given its rows
        (None, None, None, None, True),
        (THIRD, THIRD, FIFTH, FIFTH, False),
        (THIRD, None, FIFTH, None, False),
        (FIFTH, FIFTH, None, THIRD, False),
        (FIFTH, THIRD, FIFTH, THIRD, False),
        (HoldOut(rule="seed", fraction=0.2, seed=0), FIFTH, FIFTH, FIFTH, False),
        (None, FIFTH, FIFTH, FIFTH, False),  # it may be another one, and says so no more
    ],
)
def test_models_that_hold_out_other_rows_are_not_compared(
    new: HoldOut | None,
    new_evaluated: HoldOut | None,
    old: HoldOut | None,
    old_evaluated: HoldOut | None,
    fits: bool,
) -> None:
    challenger = make_contender("new", "1" * 20, trained=new, hold_out=new_evaluated)
    champion = make_contender("old", "0" * 20, trained=old, hold_out=old_evaluated)

    if fits:
        assert compared(challenger, champion).promote
        return
    with pytest.raises(
        EvaluationInvalid, match=r"trained without the same rows .*challenger: .*delete champion\.json"
    ):
        compared(challenger, champion)


def test_a_first_model_is_evaluated_on_rows_that_it_was_not_trained_on() -> None:
    with pytest.raises(EvaluationInvalid, match=r"its evaluation: content, fraction 0\.3"):
        compared(make_contender("new", "1", trained=FIFTH, hold_out=THIRD), None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        json.dumps({"examples_sha256": "a" * 64, "correct": "", "model": "m"}).encode(),
        json.dumps({"examples_sha256": "a" * 64, "correct": "102", "model": "m"}).encode(),
        json.dumps({"examples_sha256": "x", "correct": "1", "model": "m"}).encode(),
        json.dumps({"examples_sha256": "a" * 64, "correct": "11", "model": "m", "rows": ["x"]}).encode(),
        json.dumps({"examples_sha256": "a" * 64, "correct": "1", "model": "m", "hold_out": {}}).encode(),
    ],
)
def test_what_is_no_evaluation_is_refused_by_its_address(content: bytes) -> None:
    with pytest.raises(EvaluationInvalid, match=r"gs://b/evaluation\.json must be an evaluation"):
        parse_evaluation(content, "gs://b/evaluation.json")
