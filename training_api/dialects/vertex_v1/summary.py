"""What a table of many jobs shows of a request, in the words that the table knows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from training_api.dialects.vertex_v1.pool_tasks import image_of

#: Accelerators that the table has words for, those of ml.v1; the machine type tells of the newer ones.
_OLDER = "NVIDIA_TESLA_"
#: What the ops API calls the roles of the pools, by their place.
_ROLES = ("master", "worker", "parameterServer", "evaluator")


def summary(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a stored request that a row shows; those of a study, if it tunes."""
    job_spec = request.get("trialJobSpec") or request.get("jobSpec", {})
    pools = zip(_ROLES, job_spec.get("workerPoolSpecs", []), strict=False)
    shown = dict(field for role, pool in pools if pool for field in _shown(role, pool))
    # The tier of ml.v1 that takes machines from the request.
    shown = {"scaleTier": "CUSTOM", **shown}
    return {**shown, "hyperparameters": _search(request)} if "studySpec" in request else shown


def _search(request: Mapping[str, Any]) -> dict[str, Any]:
    (metric,) = request["studySpec"]["metrics"]
    return {
        "goal": metric.get("goal", "MAXIMIZE"),
        "maxTrials": request["maxTrialCount"],
        "maxParallelTrials": request["parallelTrialCount"],
        "hyperparameterMetricTag": metric["metricId"],
    }


def _shown(role: str, pool: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    machine = pool.get("machineSpec", {})
    yield f"{role}Type", machine.get("machineType", "")
    if role != "master":
        yield f"{role}Count", pool.get("replicaCount", "0")
    config: dict[str, Any] = {"imageUri": image_of(pool)}
    if machine.get("acceleratorType", "").startswith(_OLDER):
        config["acceleratorConfig"] = {
            "type": machine["acceleratorType"],
            "count": str(machine["acceleratorCount"]),
        }
    yield f"{role}Config", config
