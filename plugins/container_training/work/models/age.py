"""
The age of models: the time since the last successful training, and its limit.

A model is what the job label ``model`` names; every job with the label counts as a retraining of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from training_api.errors import InvalidRetrainingLimit

MODEL_LABEL = "model"
#: Among the limits: that of all models that are not named.
ANY_MODEL = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraining:
    """
    One job that trained a model and has ended.

    :param good: it succeeded.
    """

    model: str
    job_id: str
    ended_at: datetime
    good: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAge:
    """
    How a model stands.

    :param last_good: ``None``: no job has trained it yet.
    :param latest: the last job that ended, well or not; ``None`` as above.
    :param limit: how old it may be; ``None``: as old as it likes.
    """

    model: str
    last_good: Retraining | None
    latest: Retraining | None
    limit: timedelta | None
    age: timedelta | None

    @property
    def is_overdue(self) -> bool:
        """Whether it is older than its limit; one that was never trained is."""
        return self.limit is not None and (self.age is None or self.age > self.limit)


def model_ages(
    retrainings: Iterable[Retraining],
    limits: Mapping[str, timedelta],
    now: datetime,
    *,
    with_untrained: bool = True,
) -> list[ModelAge]:
    """
    Return each model's age, the overdue ones first, then by name.

    Pure.

    :param limits: model, or ``*``, -> limit.
    :param with_untrained: also models that have a limit and no job.
    """
    good: dict[str, Retraining] = {}
    latest: dict[str, Retraining] = {}
    for each in retrainings:
        _keep_newer(latest, each)
        if each.good:
            _keep_newer(good, each)
    names = set(latest) | ({*limits} - {ANY_MODEL} if with_untrained else set())
    ages = [
        ModelAge(
            model=name,
            last_good=good.get(name),
            latest=latest.get(name),
            limit=limits.get(name, limits.get(ANY_MODEL)),
            age=max(now - good[name].ended_at, timedelta()) if name in good else None,
        )
        for name in names
    ]
    return sorted(ages, key=lambda age: (not age.is_overdue, age.model))


def parse_limits(value: object, source: str) -> dict[str, timedelta]:
    """
    Return the limits of a setting; empty: none.

    The setting is an object of models and days, or its JSON text.

    Pure.

    :param source: how the setting is called, for messages.
    :raises InvalidRetrainingLimit: not such an object, or a number of days that is not above 0.
    """
    rule = f'{source} must be an object of models and days, like {{"digits": 7, "*": 30}}'
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else None
        except ValueError as error:
            raise InvalidRetrainingLimit(f"{rule}; it is not JSON: {error}") from error
    if not value:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidRetrainingLimit(f"{rule}, got {type(value).__name__}")
    return {str(model): _days(days, f"{source}[{model!r}]") for model, days in value.items()}


def _days(value: object, name: str) -> timedelta:
    number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if not (math.isfinite(number) and 0 < number <= timedelta.max.days):
        raise InvalidRetrainingLimit(f"{name} must be a number of days above 0, got {value!r}")
    return timedelta(days=number)


def _keep_newer(kept: dict[str, Retraining], each: Retraining) -> None:
    known = kept.get(each.model)
    if known is None or each.ended_at > known.ended_at:
        kept[each.model] = each
