"""The fleet's past as the page shows it, from what the service says of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from container_training.work.models.age import ModelAge, Retraining, model_ages
from training_api.fleet.explanations import title_of
from training_api.fleet.history import EndedJob, FleetHistory, ModelHistory


def history_view(
    history: FleetHistory, *, by: str, currency: str, cost_name: Callable[[str], str]
) -> dict[str, Any]:
    """
    Return the past as JSON.

    :param by: what costs are grouped by, as the page calls it.
    :param cost_name: value of the label by which costs are grouped -> what it is called.
    """
    shown = history.model_dump(mode="json", by_alias=True, exclude={"models"})
    for found, row in zip(history.failures, shown["failures"], strict=True):
        row["title"] = title_of(found.cause)
    if shown["cost"]:
        shown["cost"] |= {"by": by, "currency": currency}
        for group in shown["cost"]["groups"]:
            group["name"] = cost_name(group["name"]) if group["name"] else group["name"]
    return shown


def models_view(
    history: FleetHistory, limits: Mapping[str, timedelta], now: datetime, *, with_untrained: bool
) -> list[dict[str, Any]]:
    """
    Return the age of each model as JSON.

    :param limits: as :func:`model_ages` has them; so is ``with_untrained``.
    """
    retrainings = (each for model in history.models for each in _retrainings(model))
    return [_model_view(age) for age in model_ages(retrainings, limits, now, with_untrained=with_untrained)]


def _retrainings(model: ModelHistory) -> Iterator[Retraining]:
    for job in (model.latest, model.last_good):
        if job is not None:
            yield _retraining(model.model, job)


def _retraining(model: str, job: EndedJob) -> Retraining:
    return Retraining(
        model=model, job_id=job.id, ended_at=datetime.fromtimestamp(job.end_time, UTC), good=job.good
    )


def _model_view(age: ModelAge) -> dict[str, Any]:
    return {
        "model": age.model,
        "lastGood": _retraining_view(age.last_good),
        "latest": _retraining_view(age.latest),
        "limitSeconds": age.limit.total_seconds() if age.limit else None,
        "ageSeconds": age.age.total_seconds() if age.age is not None else None,
        "isOverdue": age.is_overdue,
    }


def _retraining_view(each: Retraining | None) -> dict[str, Any] | None:
    if each is None:
        return None
    return {"id": each.job_id, "endTime": each.ended_at.timestamp(), "good": each.good}
