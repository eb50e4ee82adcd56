"""A plan as people read it."""

from __future__ import annotations

from typing import Any

import pytest

from container_training.work.plan.plan import PlannedCost, PlannedMachines
from container_training.work.plan.text import plan_lines
from tests.support.fakes.plans import make_access, make_image, make_plan


def test_people_see_each_part_of_a_plan() -> None:
    gpus = PlannedMachines(
        role="worker", count=2, machine_type="n1-standard-8", gpus=4, gpu="NVIDIA_TESLA_T4"
    )
    cost = PlannedCost(currency="EUR", reason="extra.prices has no price for 'n1-standard-8'")

    text = "\n".join(plan_lines(make_plan(machines=[gpus], cost=cost)))

    assert '"jobId": "digits_1"' in text
    assert "would be built and pushed" in text
    assert "GRANT agent gets reader" in text
    assert "worker: 2 x n1-standard-8 with 4 NVIDIA_TESLA_T4" in text
    assert "not known: extra.prices has no price" in text
    assert "36 EUR per hour, 3 trials side by side" in "\n".join(
        plan_lines(make_plan(cost=PlannedCost(per_hour=36.0, currency="EUR", parallel_trials=3)))
    )


def lines(**changes: Any) -> list[str]:
    return list(plan_lines(make_plan(**changes)))


@pytest.mark.parametrize(
    ("image", "shown"),
    [
        ({"actions": ["build", "push"]}, "would be built and pushed"),
        ({"actions": ["pull"]}, "would be pulled: the registry has it"),
        ({"actions": ["push"], "on_engine": True}, "is on the engine, and would be pushed"),
        ({"actions": [], "on_engine": True, "digest": "sha256:1"}, "nothing to build, nothing to push"),
        ({"context_hash": None, "note": "named by tag only", "actions": []}, "named by tag only"),
    ],
)
def test_an_image_says_what_becomes_of_it(image: dict[str, Any], shown: str) -> None:
    assert any(shown in line for line in lines(images=[make_image(**image)]))


def test_a_digest_that_is_not_known_yet_is_said() -> None:
    assert any("and by digest once the registry has it" in line for line in lines())
    assert not any("once the registry" in line for line in lines(images=[make_image(digest="sha256:1")]))


def test_what_there_is_nothing_of_is_said_in_its_place() -> None:
    shown = lines(images=[], access=[])

    assert "  none: the job runs packages on an image of the service's own" in shown
    assert "  nothing to grant" in shown


def test_an_access_that_is_there_already_is_no_grant() -> None:
    (line,) = [
        line for line in lines(access=[make_access(is_granted_by_plan=False)]) if "gets reader" in line
    ]

    assert "GRANT" not in line


def test_a_plan_that_cannot_be_applied_says_why_and_not_how() -> None:
    shown = lines(blockers=["the bucket is not there"])

    assert "  not possible: the bucket is not there" in shown
    assert not any("apply PLAN" in line for line in shown)


def test_headings_and_nothing_else_are_not_indented() -> None:
    assert all(line.endswith(":") for line in lines() if not line.startswith(" "))
