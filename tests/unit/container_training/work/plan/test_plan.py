"""Plans as documents: sealed, read back, and compared with what is there on applying."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from container_training.work.plan.plan import (
    PlanInputs,
    PlannedCost,
    PlannedMachines,
    PlannedParts,
    read_plan,
    stale_reasons,
)
from tests.support.fakes.plans import make_access, make_image, make_plan
from training_api.errors import InvalidPlan, PlanIsStale


def test_a_plan_is_read_back_as_it_was_written() -> None:
    plan = make_plan()

    assert read_plan(json.dumps(plan.to_json()), "plan.json") == plan


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "plan.json is no plan: it is not JSON"),
        ("[]", "plan.json must be a plan of version 1, got version None; plan again"),
        ('{"version": 2}', "plan.json must be a plan of version 1, got version 2; plan again"),
        ('{"version": 1}', r"plan.json is no plan: created_at: Field required; plan again"),
    ],
)
def test_what_is_no_plan_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        read_plan(text, "plan.json")


def test_a_plan_that_was_edited_is_refused() -> None:
    document = make_plan().to_json()
    document["request"]["trainingInput"]["args"] = ["--lr=10"]

    with pytest.raises(InvalidPlan, match="was edited after it was made"):
        read_plan(json.dumps(document), "plan.json")


def test_a_plan_holds_while_nothing_but_the_moment_changes() -> None:
    later = make_plan(created_at=datetime(2026, 11, 21, tzinfo=UTC))

    assert stale_reasons(make_plan(), later) == []


def test_somebody_else_may_have_built_the_same_image() -> None:
    built = make_image(on_engine=True, actions=["push"], changes=["since x:"])

    assert stale_reasons(make_plan(), make_plan(images=[built])) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"config_sha256": "c2"}, 'config_sha256 was "c1", is "c2"'),
        ({"images": [make_image(digest="sha256:1")]}, 'images.master.digest was nothing, is "sha256:1"'),
        ({"access": [make_access(etag="e2")]}, 'access.reg.test/demo/digits.etag was "e1", is "e2"'),
        ({"service": "http://other.test"}, 'service was "http://training.test", is "http://other.test"'),
        ({"cost": PlannedCost(per_hour=40.0, currency="EUR")}, "cost.per_hour was 36.0, is 40.0"),
        (
            {"machines": [PlannedMachines(role="master", count=1, machine_type="n1-standard-8")]},
            'machines.master.machine_type was "n1-standard-4", is "n1-standard-8"',
        ),
        (
            {
                "request": {
                    "jobId": "digits_1",
                    "trainingInput": {"region": "us-central1", "args": ["--lr=1"]},
                }
            },
            'request.trainingInput.args was ["--lr=0.1"], is ["--lr=1"]',
        ),
        ({"blockers": ["job id 'digits_1' is taken"]}, "job id 'digits_1' is taken"),
    ],
)
def test_each_change_makes_a_plan_stale_and_is_named_with_both_values(
    changes: dict[str, Any], reason: str
) -> None:
    assert stale_reasons(make_plan(), make_plan(**changes)) == [reason]


def test_a_changed_build_context_is_named_with_its_files() -> None:
    parts = PlannedParts(dockerfile="Dockerfile", files={"task.py": "b"}, build_args={}, base_images={})
    changed = make_image(ref="reg.test/demo/digits:ctx-2", context_hash="2", parts=parts)

    reasons = stale_reasons(make_plan(), make_plan(images=[changed]))

    assert reasons == [
        'images.master.context_hash was "1", is "2"',
        'images.master.ref was "reg.test/demo/digits:ctx-1", is "reg.test/demo/digits:ctx-2"',
        "build context: task.py changed",
    ]


def test_the_error_of_a_stale_plan_says_what_changed_and_how_to_go_on() -> None:
    text = str(PlanIsStale(["a was 1, is 2", "b was 1, is 2"]))

    assert "nothing was changed" in text
    assert "\n  a was 1, is 2\n  b was 1, is 2\n" in text
    assert text.endswith("plan again, look at the new plan, and apply that one")


def test_an_input_that_is_not_set_is_left_out() -> None:
    inputs = PlanInputs.of(
        fields={"image": "reg.test/demo/x", "region": "", "args": ("--lr", "1"), "labels": None},
        job='{"labels": {"a": "b"}}',
        context_dir="/src",
        build_args={"BASE": "", "N": 3},
    )

    assert (inputs.fields, inputs.image, inputs.build_args) == (
        {"args": ["--lr", "1"]},
        "reg.test/demo/x",
        {"N": "3"},
    )
    assert inputs.job == {"labels": {"a": "b"}}
