"""Scale tiers: the replicas that each of them stands for."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.fakes.job_requests import make_job, make_spec, violations_of
from training_api.dialects.ml_v1.resources import ScaleTier
from training_api.dialects.ml_v1.scale_tiers import TIER_SHAPES


@pytest.mark.parametrize(
    ("tier", "replicas"),
    [
        ("BASIC", {("master", "n1-standard-4"): 1}),
        ("BASIC_GPU", {("master", "standard_gpu"): 1}),
        (
            "STANDARD_1",
            {("master", "n1-highcpu-8"): 1, ("worker", "n1-highcpu-8"): 4, ("ps", "n1-standard-4"): 3},
        ),
        (
            "PREMIUM_1",
            {("master", "n1-highcpu-16"): 1, ("worker", "n1-highcpu-16"): 19, ("ps", "n1-highmem-8"): 11},
        ),
    ],
)
def test_a_tier_is_so_many_machines_of_each_role(tier: str, replicas: dict[tuple[str, str], int]) -> None:
    spec = make_spec(scale_tier=tier)

    assert Counter((each.replica.role.value, each.machine.name) for each in spec.replicas) == replicas


def test_a_gpu_tier_has_the_gpu_of_its_machine() -> None:
    assert make_spec(scale_tier="BASIC_GPU").master.gpus == 1


def test_every_tier_has_replicas_of_its_own_or_is_refused_or_asks_for_them() -> None:
    others = set(ScaleTier) - set(TIER_SHAPES)

    assert others == {ScaleTier.CUSTOM, ScaleTier.BASIC_TPU}
    for tier in others:
        assert violations_of(make_job(scale_tier=tier.value))
