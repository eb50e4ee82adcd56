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


def test_a_model_has_the_age_of_its_last_good_job() -> None:
    models = [
        {"model": "m", "lastGood": ended("good", 90, good=True), "latest": ended("bad", 5, good=False)},
        {"model": "bad", "latest": ended("bad", 5, good=False)},
    ]
    limits = {"m": timedelta(minutes=1), "never": timedelta(days=1)}

    shown = models_view(past(models=models), limits, NOW, with_untrained=True)

    assert [(model["model"], model["ageSeconds"], model["isOverdue"]) for model in shown] == [
        ("m", 90, True),
        ("never", None, True),
        ("bad", None, False),
    ]
    assert (shown[0]["lastGood"]["id"], shown[0]["latest"]["id"]) == ("good", "bad")
