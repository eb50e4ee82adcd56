"""The fleet's past as the page shows it, from what the service says of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from container_training.work.models.age import ANY_MODEL
from training_api.fleet.explanations import title_of
from training_api.fleet.history import FleetHistory


def history_view(
    history: FleetHistory, *, by: str, currency: str, cost_name: Callable[[str], str]
) -> dict[str, Any]:
    """
    Return the past as JSON.

    :param by: what costs are grouped by, as the page calls it.
    :param cost_name: value of the label by which costs are grouped -> what it is called.
    """
    shown = history.model_dump(mode="json", by_alias=True)
    for found, row in zip(history.failures, shown["failures"], strict=True):
        row["title"] = title_of(found.cause)
    if shown["cost"]:
        shown["cost"] |= {"by": by, "currency": currency}
        for group in shown["cost"]["groups"]:
            group["name"] = cost_name(group["name"]) if group["name"] else group["name"]
    return shown


def models_view(
    history: FleetHistory, limits: Mapping[str, timedelta], *, with_untrained: bool
) -> list[dict[str, Any]]:
    """
    Return the age of each model as JSON, the overdue ones first, then by name.

    A model that is older than its limit is overdue; so is one that was never trained.

    :param limits: model, or ``*``, -> how old it may be.
    :param with_untrained: also models that have a limit and no job.
    """
    known = {each.model: each for each in history.models}
    shown = []
    for model in {*known, *({*limits} - {ANY_MODEL} if with_untrained else ())}:
        each, limit = known.get(model), limits.get(model, limits.get(ANY_MODEL))
        good = each.last_good if each else None
        age = max(history.until - good.end_time, 0.0) if good else None
        limit_seconds = limit.total_seconds() if limit else None
        row = {
            "model": model,
            "lastGood": good and good.to_wire(),
            "latest": each and each.latest.to_wire(),
            "limitSeconds": limit_seconds,
            "ageSeconds": age,
            "isOverdue": limit_seconds is not None and (age is None or age > limit_seconds),
        }
        shown.append(row)
    return sorted(shown, key=lambda row: (not row["isOverdue"], row["model"]))
