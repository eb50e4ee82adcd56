"""Jobs in ml.v1's words that can be written for Vertex AI, and what it answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from training_api.dialects.ml_v1.resources import Job
from training_api.errors import InvalidJobSpec
from training_api.job.machines import MACHINE_TYPES
from training_api.job.newer_machines import VERTEX_MACHINE_TYPES
from training_api.vertex_jobs.options import NO_OPTIONS, VertexOptions
from training_api.vertex_jobs.writer import VertexRequest, vertex_request

IMAGE = "registry.test/p/i:1"
ID = "3958704668489547776"
#: What is in both worlds.
_MACHINES = st.sampled_from([name for name in MACHINE_TYPES if name in VERTEX_MACHINE_TYPES])
_IMAGES = st.sampled_from([IMAGE, "europe-west4-docker.pkg.dev/p/r/i@sha256:" + "a" * 64, "gcr.io/p/i"])
_WORDS = st.lists(st.text("$()A= -é\"\\'", max_size=6), max_size=3)
_SCALES = st.sampled_from(["NONE", "UNIT_LINEAR_SCALE"])
_WHOLE = st.integers(-5, 5)


def make_job(**training: Any) -> Job:
    """Return a job of one replica; ``training`` is laid over its trainingInput."""
    return Job.model_validate(
        {"jobId": "train_1", "trainingInput": {"masterConfig": {"imageUri": IMAGE}, **training}}
    )


def make_custom(machine: str, **config: Any) -> Job:
    """Return a job of one replica on ``machine``; ``config`` is laid over its masterConfig."""
    return make_job(scaleTier="CUSTOM", masterType=machine, masterConfig={"imageUri": IMAGE, **config})


def answered(request: VertexRequest, **more: Any) -> dict[str, Any]:
    """Return the resource that Vertex AI answers to ``request``; ``more`` of its fields."""
    name = f"projects/123/locations/europe-west4/{request.collection}/{ID}"
    return {"name": name, **request.body, "state": "JOB_STATE_PENDING", **more}


def broken(job: Job, options: VertexOptions = NO_OPTIONS) -> dict[str, str]:
    """Return which fields of ``job`` Vertex AI refuses, and why."""
    with pytest.raises(InvalidJobSpec) as caught:
        vertex_request(job, options)
    return {each.field: each.description for each in caught.value.violations}


@st.composite
def _configs(draw: st.DrawFn, machine: str, *, is_master: bool, has_args: bool) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if is_master or draw(st.booleans()):
        config["imageUri"] = draw(_IMAGES)
    if not has_args:
        config |= {"containerCommand": draw(_WORDS), "containerArgs": draw(_WORDS)}
    if draw(st.booleans()):
        config["diskConfig"] = {"bootDiskType": "pd-standard", "bootDiskSizeGb": draw(st.integers(0, 200))}
    if machine.startswith("n1-") and draw(st.booleans()):
        config["acceleratorConfig"] = {"type": "NVIDIA_TESLA_T4", "count": draw(st.sampled_from([1, 2, 4]))}
    return config


@st.composite
def _params(draw: st.DrawFn, name: str) -> dict[str, Any]:
    kind = draw(st.sampled_from(["DOUBLE", "INTEGER", "CATEGORICAL", "DISCRETE"]))
    param: dict[str, Any] = {"parameterName": name, "type": kind}
    if kind == "CATEGORICAL":
        return {
            **param,
            "categoricalValues": draw(st.lists(st.text("ab", max_size=2), min_size=1, unique=True)),
        }
    param["scaleType"] = draw(_SCALES)
    if kind == "DISCRETE":
        values = st.lists(st.floats(-9, 9).map(lambda value: round(value, 3)), min_size=1, unique=True)
        return {**param, "discreteValues": sorted(draw(values))}
    low, high = sorted(draw(st.lists(_WHOLE, min_size=2, max_size=2, unique=True)))
    return {**param, "minValue": low, "maxValue": high}


@st.composite
def _searches(draw: st.DrawFn) -> dict[str, Any]:
    params = [draw(_params(f"p{place}")) for place in range(draw(st.integers(1, 3)))]
    counts = st.integers(0, 30)
    search = {
        "goal": draw(st.sampled_from(["MAXIMIZE", "MINIMIZE", "GOAL_TYPE_UNSPECIFIED"])),
        "params": params,
        "maxTrials": draw(counts),
        "maxParallelTrials": draw(counts),
        "maxFailedTrials": draw(counts),
        "enableTrialEarlyStopping": draw(st.booleans()),
        "hyperparameterMetricTag": draw(st.sampled_from(["", "accuracy"])),
    }
    if all(each["type"] != "DOUBLE" for each in params):
        search["algorithm"] = draw(st.sampled_from(["GRID_SEARCH", "RANDOM_SEARCH"]))
    return search


@st.composite
def described_jobs(draw: st.DrawFn) -> Job:
    """Return a job that both worlds can run."""
    training: dict[str, Any] = {"scaleTier": draw(st.sampled_from(["BASIC", "PREMIUM_1", "CUSTOM"]))}
    has_args = draw(st.booleans())
    if has_args:
        training["args"] = draw(_WORDS)
    for role in ("master", "worker", "parameterServer", "evaluator"):
        machine = ""
        if training["scaleTier"] == "CUSTOM":
            machine = training[f"{role}Type"] = draw(_MACHINES)
            if role != "master":
                training[f"{role}Count"] = draw(st.integers(0, 2))
        training[f"{role}Config"] = draw(_configs(machine, is_master=role == "master", has_args=has_args))
    if draw(st.booleans()):
        training["jobDir"] = draw(st.sampled_from(["gs://bkt", "gs://bkt/a b/", "gs://bkt/$(A)$$"]))
    if draw(st.booleans()):
        training["scheduling"] = {"maxRunningTime": draw(st.sampled_from(["1s", "3600s", "1.500s"]))}
    if draw(st.booleans()):
        training["serviceAccount"] = "trainer@p.iam.gserviceaccount.com"
    if draw(st.booleans()):
        training["hyperparameters"] = draw(_searches())
    labels = draw(st.dictionaries(st.text("ab-_", max_size=3).map("k".__add__), st.text("ab1-_", max_size=3)))
    return Job.model_validate({"jobId": "train_1", "labels": labels, "trainingInput": training})
