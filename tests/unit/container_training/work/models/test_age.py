from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from container_training.work.models.age import Retraining, model_ages, parse_limits
from training_api.errors import InvalidRetrainingLimit

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)


def trained(model: str, days_ago: float, *, good: bool = True) -> Retraining:
    job_id = f"{model}_{days_ago}"
    return Retraining(model=model, job_id=job_id, ended_at=NOW - days_ago * DAY, good=good)


def test_age_is_since_the_last_job_that_succeeded_not_the_last_that_tried() -> None:
    (age,) = model_ages([trained("a", 9), trained("a", 5), trained("a", 1, good=False)], {"a": 4 * DAY}, NOW)

    assert age.age == 5 * DAY
    assert age.is_overdue
    assert age.last_good is not None
    assert age.last_good.job_id == "a_5"
    assert age.latest is not None
    assert not age.latest.good


def test_model_at_its_limit_is_not_yet_overdue() -> None:
    (age,) = model_ages([trained("a", 4)], {"a": 4 * DAY}, NOW)

    assert not age.is_overdue


def test_model_without_a_limit_may_be_as_old_as_it_likes() -> None:
    (age,) = model_ages([trained("a", 400)], {}, NOW)

    assert age.limit is None
    assert not age.is_overdue


def test_limit_of_any_model_holds_where_there_is_no_other() -> None:
    ages = model_ages([trained("a", 10), trained("b", 10)], {"*": 7 * DAY, "b": 30 * DAY}, NOW)

    assert {age.model: age.is_overdue for age in ages} == {"a": True, "b": False}


def test_model_that_was_never_trained_is_overdue_and_comes_first() -> None:
    ages = model_ages([trained("a", 1)], {"z": DAY, "*": 5 * DAY}, NOW)

    assert [(age.model, age.is_overdue, age.age) for age in ages] == [("z", True, None), ("a", False, DAY)]


def test_who_does_not_see_all_jobs_is_not_told_that_a_model_was_never_trained() -> None:
    ages = model_ages([trained("a", 1)], {"z": DAY}, NOW, with_untrained=False)

    assert [age.model for age in ages] == ["a"]


def test_clock_that_is_behind_makes_no_model_younger_than_new() -> None:
    (age,) = model_ages([trained("a", -1)], {}, NOW)

    assert age.age == timedelta()


@pytest.mark.parametrize("value", [{"a": 7, "*": 0.5}, '{"a": 7, "*": 0.5}'])
def test_limits_are_days_by_model(value: object) -> None:
    assert parse_limits(value, "limits") == {"a": 7 * DAY, "*": DAY / 2}


@pytest.mark.parametrize("value", [None, "", " ", {}])
def test_no_limits_are_none(value: object) -> None:
    assert parse_limits(value, "limits") == {}


@pytest.mark.parametrize("value", ["no json", "[1]", [1], 7, {"a": 0}, {"a": "7"}, {"a": True}, {"a": 1e12}])
def test_limits_that_cannot_be_read_are_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidRetrainingLimit, match=r"limits.* must be"):
        parse_limits(value, "limits")
