"""Which quotas a job uses, and how much of each."""

from __future__ import annotations

import pytest

from tests.support.fakes.described_jobs import make_custom, make_job
from training_api.dialects.vertex_v1.quotas import demand
from training_api.vertex_jobs.spec import vertex_job_spec

METRIC = "aiplatform.googleapis.com/custom_model_training_"
T4 = {"acceleratorConfig": {"type": "NVIDIA_TESLA_T4", "count": 2}}
SEARCH = {
    "goal": "MAXIMIZE",
    "maxTrials": 6,
    "maxParallelTrials": 3,
    "params": [{"parameterName": "lr", "type": "DOUBLE", "minValue": 0.1, "maxValue": 1}],
}


@pytest.mark.parametrize(
    ("machine", "config", "strategy", "expected"),
    [
        ("n1-standard-8", {}, "", {"cpus": 8}),
        ("e2-standard-4", {}, "STANDARD", {"cpus": 4}),
        ("n2-standard-4", {}, "", {"n2_cpus": 4}),
        ("n1-standard-8", T4, "", {"cpus": 8, "nvidia_t4_gpus": 2}),
        ("n1-standard-8", T4, "SPOT", {"preemptible_cpus": 8, "preemptible_nvidia_t4_gpus": 2}),
        ("a3-highgpu-8g", {}, "FLEX_START", {"preemptible_nvidia_h100_gpus": 8}),
        ("a3-megagpu-8g", {}, "", {"nvidia_h100_mega_gpus": 8}),
        ("g2-standard-24", {}, "", {"nvidia_l4_gpus": 2}),
    ],
)
def test_a_machine_uses_the_quotas_of_its_series_and_gpus(
    machine: str, config: dict[str, object], strategy: str, expected: dict[str, int]
) -> None:
    spec = vertex_job_spec("p", make_custom(machine, **config))

    assert demand(spec, strategy) == {f"{METRIC}{name}": count for name, count in expected.items()}


def test_all_replicas_of_all_parallel_trials_count() -> None:
    job = make_job(
        scaleTier="CUSTOM",
        masterType="n1-standard-4",
        workerType="n1-standard-8",
        workerCount=5,
        hyperparameters=SEARCH,
    )

    assert demand(vertex_job_spec("p", job)) == {f"{METRIC}cpus": (4 + 5 * 8) * 3}
