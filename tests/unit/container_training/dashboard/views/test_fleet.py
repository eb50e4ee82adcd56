"""The past as the page shows it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from container_training.dashboard.views.fleet import history_view, models_view
from training_api.fleet.history import FleetHistory

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
T = NOW.timestamp()


def past(**fields: Any) -> FleetHistory:
    return FleetHistory.model_validate({"since": 0, "until": 60, "times": [0]} | fields)


def ended(name: str, seconds_ago: float, *, good: bool) -> dict[str, Any]:
    return {"id": name, "endTime": T - seconds_ago, "good": good}


def test_causes_have_titles_and_dags_their_names() -> None:
    groups = [{"name": name, "amounts": [1], "total": 1} for name in ("d", "", None)]
    failures = [{"cause": "OUT_OF_MEMORY", "jobs": 2, "latest": ended("a", 1, good=False)}]
    history = past(cost={"times": [0], "seconds": 60, "groups": groups}, failures=failures)

    shown = history_view(history, by="dag", currency="EUR", cost_name=str.upper)

    assert (shown["cost"]["by"], shown["cost"]["currency"]) == ("dag", "EUR")
    assert [group["name"] for group in shown["cost"]["groups"]] == ["D", "", None]
    assert shown["failures"][0]["title"] == "Out of memory"
    assert shown["failures"][0]["latest"]["endTime"] == T - 1


def test_without_prices_there_is_no_cost() -> None:
    assert history_view(past(), by="dag", currency="", cost_name=str)["cost"] is None


def model(name: str, days_ago: float | None, failed_days_ago: float | None = None) -> dict[str, Any]:
    good = None if days_ago is None else ended("good", days_ago * 86_400, good=True)
    bad = None if failed_days_ago is None else ended("bad", failed_days_ago * 86_400, good=False)
    return {"model": name, "lastGood": good, "latest": bad or good}


def ages(
    *models: dict[str, Any], with_untrained: bool = True, **limits: float
) -> list[tuple[str, float | None, bool]]:
    """
    Return model, days and whether it is overdue.

    :param limits: in days; ``any`` is that of all models that are not named.
    """
    named = {"*" if name == "any" else name: timedelta(days=days) for name, days in limits.items()}
    shown = models_view(past(until=T, models=models), named, with_untrained=with_untrained)
    return [
        (row["model"], None if row["ageSeconds"] is None else row["ageSeconds"] / 86_400, row["isOverdue"])
        for row in shown
    ]


def test_age_is_since_the_last_job_that_succeeded_not_the_last_that_tried() -> None:
    history = past(until=T, models=[model("a", 5, failed_days_ago=1)])

    (row,) = models_view(history, {"a": timedelta(days=4)}, with_untrained=True)

    assert (row["ageSeconds"], row["limitSeconds"], row["isOverdue"]) == (5 * 86_400, 4 * 86_400, True)
    assert row["lastGood"] == {"id": "good", "endTime": T - 5 * 86_400, "good": True}
    assert row["latest"] == {"id": "bad", "endTime": T - 86_400, "good": False}


def test_model_at_its_limit_is_not_yet_overdue() -> None:
    assert ages(model("a", 4), a=4) == [("a", 4, False)]


def test_model_without_a_limit_may_be_as_old_as_it_likes() -> None:
    assert ages(model("a", 400)) == [("a", 400, False)]


def test_limit_of_any_model_holds_where_there_is_no_other() -> None:
    assert ages(model("b", 10), model("a", 10), any=7, b=30) == [("a", 10, True), ("b", 10, False)]


def test_model_that_was_never_trained_is_overdue_and_comes_first() -> None:
    assert ages(model("a", 1), z=1, any=5) == [("z", None, True), ("a", 1, False)]
    assert ages(model("a", None, failed_days_ago=1), any=5) == [("a", None, True)]


def test_who_does_not_see_all_jobs_is_not_told_that_a_model_was_never_trained() -> None:
    assert ages(model("a", 1), z=1, with_untrained=False) == [("a", 1, False)]


def test_clock_that_is_behind_makes_no_model_younger_than_new() -> None:
    assert ages(model("a", -1)) == [("a", 0, False)]
