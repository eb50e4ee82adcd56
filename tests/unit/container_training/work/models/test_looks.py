"""Looks at a hold-out: counted with their decisions, and few false promotions in all."""

from __future__ import annotations

import json

import pytest

from benchmarks.retraining.nights import NIGHTS, simulate
from container_training.work.models.champion import ChampionPointer
from container_training.work.models.looks import MAX_JUDGEMENTS, Looks, judged
from container_training.work.models.promotion import Contender, Decision, PromotionRule
from container_training.work.models.versions import HoldOut, ModelVersion
from tests.support.bed.model_versions import FIFTH, THIRD, make_contender, make_version
from training_api.errors import EvaluationInvalid

CHAMPION = make_contender("old", "1" * 90 + "0" * 10)
BETTER = "1" * 100
RULE = PromotionRule()


def look_at(
    looks: Looks, challenger: Contender, champion: Contender | None = CHAMPION, rule: PromotionRule = RULE
) -> tuple[Looks, Decision]:
    return judged(looks, challenger, champion, rule, champion_generation=3)


def test_each_comparison_takes_the_next_look() -> None:
    looks, first = look_at(Looks(), make_contender("a", BETTER))
    looks, second = look_at(looks, make_contender("b", BETTER))

    assert (first.look, second.look) == (1, 2)
    assert first.level is not None
    assert second.level is not None
    assert second.level < first.level
    assert looks.taken == {"unknown": 2}
    assert [judgement.decision for judgement in looks.judgements] == [first, second]


def test_a_retry_gets_its_decision_and_takes_no_look_even_if_the_answers_are_other_ones() -> None:
    looks, decision = look_at(Looks(), make_contender("a", "1" * 80 + "0" * 20))

    after, again = judged(looks, make_contender("a", BETTER), CHAMPION, RULE, champion_generation=8)

    assert after == looks
    assert again == decision.model_copy(update={"champion_generation": 8})
    assert not again.promote


def test_another_champion_other_examples_or_another_rule_are_another_look() -> None:
    looks, _ = look_at(Looks(), make_contender("a", BETTER))
    looks, champion = look_at(looks, make_contender("a", BETTER), make_contender("older", "0" * 100))
    looks, examples = look_at(
        looks, make_contender("a", BETTER, digest="b" * 64), make_contender("old", "0" * 100, digest="b" * 64)
    )
    looks, rule = look_at(looks, make_contender("a", BETTER), rule=PromotionRule(min_gain=0.2))

    assert (champion.look, examples.look, rule.look) == (2, 3, 4)


def test_a_model_without_a_champion_takes_no_look_and_is_judged() -> None:
    looks, decision = look_at(Looks(), make_contender("a", BETTER), None)

    assert decision.promote
    assert looks.taken == {}
    assert [judgement.decision for judgement in looks.judgements] == [decision]


def test_what_cannot_be_compared_takes_no_look() -> None:
    with pytest.raises(EvaluationInvalid):
        look_at(
            Looks(), make_contender("a", BETTER, trained=THIRD), make_contender("b", BETTER, trained=FIFTH)
        )


def test_a_new_hold_out_has_looks_of_its_own_and_the_old_one_keeps_its() -> None:
    def at(looks: Looks, name: str, hold_out: HoldOut | None) -> tuple[Looks, int | None]:
        challenger = make_contender(name, BETTER, trained=hold_out)
        champion = make_contender("old", "0" * 100, trained=hold_out)
        after, decision = look_at(looks, challenger, champion)
        return after, decision.look

    looks, _ = at(Looks(), "a", FIFTH)
    looks, _ = at(looks, "b", FIFTH)
    looks, other = at(looks, "c", THIRD)
    looks, back = at(looks, "d", FIFTH)

    assert (other, back) == (1, 3)
    assert looks.taken == {"content, fraction 0.2": 3, "content, fraction 0.3": 1}


def test_a_trainer_that_begins_to_name_its_hold_out_does_not_begin_to_count_anew() -> None:
    looks, _ = look_at(Looks(), make_contender("a", BETTER))

    _, decision = look_at(looks, make_contender("b", BETTER, trained=FIFTH))

    assert decision.look == 2


def test_a_snapshot_that_was_taken_again_is_the_same() -> None:
    challenger = make_contender("a", BETTER)
    version = make_version("a", snapshot_uri="gs://b/m/snapshots/7/snapshot.json#1")

    looks, decision = look_at(Looks(), Contender(version=version, evaluation=challenger.evaluation))

    found = looks.of_snapshot("gs://b/m/snapshots/7/snapshot.json#2")
    assert found is not None
    assert found.decision == decision
    assert looks.of_snapshot("gs://b/m/snapshots/8/snapshot.json#1") is None


def test_old_decisions_are_forgotten_and_their_looks_are_not() -> None:
    looks, _ = look_at(Looks(), make_contender("a", BETTER))
    full = looks.model_copy(update={"judgements": looks.judgements * MAX_JUDGEMENTS})

    after, _ = look_at(full, make_contender("b", BETTER))

    assert len(after.judgements) == MAX_JUDGEMENTS
    assert after.taken == {"unknown": 2}
    assert Looks.model_validate_json(after.model_dump_json()) == after


def test_versions_pointers_and_decisions_of_before_are_read() -> None:
    version = {
        "version_id": "job_1",
        "model": {
            "uri": "gs://b/m/versions/job_1/model.joblib",
            "size_bytes": 1,
            "crc32c": "",
            "generation": 5,
        },
        "image": "h/p/digits@sha256:" + "0" * 64,
        "job_id": "job_1",
        "snapshot_uri": None,
        "metrics": {"accuracy": 0.9},
        "created_at": "2026-11-20T12:00:00Z",
        "created_by": "retrain_digits manual__1 register",
    }
    change = {
        "number": 1,
        "kind": "PROMOTION",
        "change_id": "c",
        "champion": "job_1",
        "before": None,
        "at": "2026-11-20T12:00:00Z",
        "by": "retrain_digits manual__1 promote",
        "why": "there is no champion; accuracy 0.9000, min_accuracy 0",
    }
    decision = {
        "promote": False,
        "why": "4 examples only the challenger has right",
        "challenger": "job_2",
        "champion": "job_1",
        "champion_generation": 5,
        "examples": 360,
        "challenger_accuracy": 0.9,
        "champion_accuracy": 0.9,
        "gain": 0.0,
        "won": 4,
        "lost": 4,
        "p_value": 0.6,
        "rule": {"alpha": 0.05, "min_gain": 0.0, "min_accuracy": 0.0},
    }
    pointer = {"champion": version, "previous": [version], "changes": [change]}

    assert ModelVersion.model_validate_json(json.dumps(version)).hold_out is None
    assert ChampionPointer.model_validate_json(json.dumps(pointer)).champion.hold_out is None
    assert Decision.model_validate_json(json.dumps(decision)).look is None


def test_without_a_better_model_few_series_of_thirty_nights_promote_one() -> None:
    series = simulate(400, rows=200, seed=7)

    false = sum(each.promoted is not None for each in series) / len(series)
    each_alone = sum(each.least_p <= 0.05 for each in series) / len(series)

    assert NIGHTS == 30
    assert false <= 0.05
    assert each_alone > 0.2  # what it would be if each night had all of alpha


def test_a_better_model_is_found() -> None:
    series = simulate(100, rows=1000, gain=0.05, seed=7)

    assert sum(each.promoted is not None for each in series) > 95
