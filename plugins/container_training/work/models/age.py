"""
The limits of the age of models, the time since their last successful training.

A model is what the job label ``model`` names; every job with the label counts as a retraining of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import timedelta

from training_api.errors import InvalidRetrainingLimit

#: Among the limits: that of all models that are not named.
ANY_MODEL = "*"


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
