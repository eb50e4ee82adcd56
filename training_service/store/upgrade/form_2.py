"""
From form 1 of a stored specification to form 2, which is read without the request.

Both are JSON of the past: the words here stay as they are, whatever later code calls things. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from training_service.store.jobs.stored_spec import UNREADABLE

_ALGORITHMS = {"ALGORITHM_UNSPECIFIED": "BAYESIAN", "GRID_SEARCH": "GRID", "RANDOM_SEARCH": "RANDOM"}
_SCALES = {
    "NONE": "NONE",
    "UNIT_LINEAR_SCALE": "LINEAR",
    "UNIT_LOG_SCALE": "LOG",
    "UNIT_REVERSE_LOG_SCALE": "REVERSE_LOG",
}
_PACKAGE = "--package="


def to_form_2(spec: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the specification in form 2.

    Pure. One that cannot be converted says why, and stays as it was.

    :param request: the ``trainingInput`` of the job, all that there was at that time.
    """
    try:
        return {
            **spec,
            "form": 2,
            # Jobs of the first versions have none.
            "secrets": dict(spec.get("secrets", {})),
            "output_dir": request.get("jobDir", ""),
            "use_chief": request.get("useChiefInTfConfig", False),
            "service_account": request.get("serviceAccount", ""),
            "region": request.get("region", ""),
            "packages": _packages(spec, request),
            "study": _study(spec["study"], request) if spec["study"] else None,
        }
    except UNREADABLE as error:
        return {**spec, "unreadable": f"its specification cannot be converted: {error!r}"}


def _packages(spec: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any] | None:
    uris = request.get("packageUris", [])
    if request.get("masterConfig", {}).get("imageUri") or not uris:
        return None
    # Those of the arguments: they have generations, where the request has none.
    fixed = spec["roles"][0]["args"][: len(uris)]
    return {
        "uris": [each.removeprefix(_PACKAGE) for each in fixed],
        "module": request["pythonModule"],
        "runtime_version": request["runtimeVersion"],
        "python_version": request["pythonVersion"],
    }


def _study(study: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in study.items() if name != "stops_early"}
    return {
        **kept,
        "parameters": [_parameter(each) for each in request["hyperparameters"]["params"]],
        "algorithm": _ALGORITHMS[study["algorithm"]],
        "stopping": "DECAY_CURVE" if study["stops_early"] else "NONE",
        "selection": "LAST",
    }


def _parameter(asked: Mapping[str, Any]) -> dict[str, Any]:
    kind, has_range = asked["type"], asked["type"] in ("DOUBLE", "INTEGER")
    values: list[Any] = []
    if kind == "CATEGORICAL":
        values = [*asked["categoricalValues"]]
    elif kind == "DISCRETE":
        values = [float(value) for value in asked["discreteValues"]]
    return {
        "name": asked["parameterName"],
        "kind": kind,
        "low": float(asked.get("minValue", 0.0)) if has_range else 0.0,
        "high": float(asked.get("maxValue", 0.0)) if has_range else 0.0,
        "scale": _SCALES[asked.get("scaleType", "NONE")],
        "values": values,
    }
