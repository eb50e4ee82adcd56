"""The rules of IAM policies."""

from __future__ import annotations

from typing import Any

import pytest

from training_api.errors import InvalidRequest
from training_api.iam.grants import MAX_PRINCIPALS
from training_api.iam.policy import merged_policy
from training_api.iam.wire import Policy, SetIamPolicyRequest

ANN = "user:ann@example.com"
BOB = "user:bob@example.com"


def merge(policy: dict[str, Any], current: Policy | None = None, **request: Any) -> dict[str, Any]:
    sent = SetIamPolicyRequest.model_validate({"policy": policy, **request})
    return merged_policy(current or Policy(), sent).to_wire()


def binding(*members: str, role: str = "roles/ml.viewer", **more: Any) -> dict[str, Any]:
    return {"role": role, "members": list(members), **more}


def test_bindings_of_one_role_become_one_and_empty_ones_none() -> None:
    merged = merge({"bindings": [binding(ANN), binding(BOB, ANN), binding(role="roles/owner")]})

    assert merged == {"bindings": [binding(ANN, BOB)], "version": 1}


def test_bindings_under_different_conditions_stay_apart() -> None:
    conditional = binding(ANN, condition={"expression": "true"})

    merged = merge({"bindings": [binding(ANN), conditional], "version": 3})

    assert merged == {"bindings": [binding(ANN), conditional], "version": 3}


def test_only_what_the_mask_names_is_replaced() -> None:
    audit = [{"service": "allServices", "auditLogConfigs": [{"logType": "ADMIN_READ"}]}]
    current = Policy.model_validate({"bindings": [binding(ANN)]})

    by_default = merge({"bindings": [binding(BOB)], "auditConfigs": audit}, current)
    audit_only = merge({"auditConfigs": audit}, current, updateMask="auditConfigs")

    assert by_default == {"bindings": [binding(BOB)], "version": 1}
    assert audit_only == {"auditConfigs": audit, "bindings": [binding(ANN)], "version": 1}


@pytest.mark.parametrize(
    "member",
    [
        "allUsers",
        "allAuthenticatedUsers",
        "serviceAccount:service-1@cloud-ml.google.com.iam.gserviceaccount.com",
        "serviceAccount:project.svc.id.goog[space/account]",
        "group:admins@example.com",
        "domain:example.com",
        "projectOwner:demo-project",
        "deleted:user:ann@example.com?uid=1",
        "principalSet://iam.googleapis.com/locations/global/workforcePools/pool/group/staff",
    ],
)
def test_every_documented_kind_of_member_is_accepted(member: str) -> None:
    assert merge({"bindings": [binding(member)]})["bindings"] == [binding(member)]


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        ({"bindings": [binding(ANN, role="viewer")]}, "policy.bindings[0].role"),
        ({"bindings": [binding(ANN), {"members": [ANN]}]}, "policy.bindings[1].role"),
        ({"bindings": [binding(ANN, "ann@example.com")]}, "policy.bindings[0].members[1]"),
        ({"bindings": [binding(f"{ANN}\n")]}, "policy.bindings[0].members[0]"),
        (
            {"bindings": [binding(ANN, condition={"title": "x"})], "version": 3},
            "policy.bindings[0].condition.expression",
        ),
        ({"version": 2}, "policy.version"),
        (
            {"bindings": [binding(*(f"user:{n}@example.com" for n in range(MAX_PRINCIPALS + 1)))]},
            "policy.bindings",
        ),
    ],
)
def test_a_bad_policy_is_refused_by_field(policy: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        merge(policy)

    assert [violation.field for violation in caught.value.violations] == [field]


def test_a_request_needs_a_policy_and_a_mask_that_exists() -> None:
    with pytest.raises(InvalidRequest, match="policy: is required"):
        merged_policy(Policy(), SetIamPolicyRequest())
    with pytest.raises(InvalidRequest, match=r"updateMask: must name only .* got 'owner'"):
        merge({}, updateMask="owner")
