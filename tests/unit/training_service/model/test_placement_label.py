"""The label of a job that says how its replicas are put on machines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.fakes.custom_jobs import make_custom_job, make_pool
from training_api.dialects.vertex_v1.reader import custom_job_spec
from training_api.errors import InvalidJobSpec
from training_api.job.placement import Placement
from training_service.model.placement_label import PLACEMENT_LABEL, check_placement, placement_of

SPEC = custom_job_spec("project", "us-central1", "1", make_custom_job(make_pool()))


def test_a_job_that_says_nothing_is_placed_as_the_service_prefers() -> None:
    check_placement(SPEC)

    assert placement_of(SPEC, Placement.PACK) is Placement.PACK


def test_a_job_is_placed_as_it_says() -> None:
    spec = replace(SPEC, labels={PLACEMENT_LABEL: "pack"})
    check_placement(spec)

    assert placement_of(spec, Placement.SPREAD) is Placement.PACK


def test_a_label_that_names_no_placement_is_refused_with_those_that_there_are() -> None:
    spec = replace(SPEC, labels={PLACEMENT_LABEL: "tight"})

    with pytest.raises(InvalidJobSpec, match="must be one of spread, pack, got 'tight'"):
        check_placement(spec)
