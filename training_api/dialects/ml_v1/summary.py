"""What a table of many jobs shows of a request, without reading all of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from training_api.dialects.ml_v1.roles import ROLES

#: The fields that a row shows: where the job runs, on what, and what a study searches.
_INPUT_FIELDS = (
    "scaleTier",
    "region",
    "pythonModule",
    *(f"{role.wire}{what}" for role in ROLES for what in ("Type", "Count")),
)
_CONFIGS = tuple(f"{role.wire}Config" for role in ROLES)
_CONFIG_FIELDS = ("imageUri", "acceleratorConfig")
_STUDY_FIELDS = ("goal", "maxTrials", "maxParallelTrials", "hyperparameterMetricTag")


def summary(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a stored ``trainingInput`` that a row shows. Pure."""
    return dict(_shown(request))


def _shown(stored: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name in _INPUT_FIELDS:
        if name in stored:
            yield name, stored[name]
    for name in _CONFIGS:
        if config := stored.get(name):
            yield name, {field: config[field] for field in _CONFIG_FIELDS if field in config}
    if study := stored.get("hyperparameters"):
        yield "hyperparameters", {field: study[field] for field in _STUDY_FIELDS if field in study}
