"""The models of IAM policies against the discovery documents of the real APIs."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.support.discovery import schemas, wire_names
from training_api.iam import wire
from training_api.wire import WireModel

SCHEMAS = schemas("ml.v1")
#: What only Resource Manager has, which asks for a policy by POST.
RESOURCE_MANAGER = schemas("cloudresourcemanager.v1")
MODELS: dict[str, type[WireModel]] = {
    "GoogleIamV1__AuditConfig": wire.AuditConfig,
    "GoogleIamV1__AuditLogConfig": wire.AuditLogConfig,
    "GoogleIamV1__Binding": wire.Binding,
    "GoogleIamV1__Policy": wire.Policy,
    "GoogleIamV1__SetIamPolicyRequest": wire.SetIamPolicyRequest,
    "GoogleIamV1__TestIamPermissionsRequest": wire.TestIamPermissionsRequest,
    "GoogleIamV1__TestIamPermissionsResponse": wire.TestIamPermissionsResponse,
    "GoogleType__Expr": wire.Expr,
}


@pytest.mark.parametrize("schema", MODELS)
def test_a_model_has_exactly_the_fields_of_its_schema(schema: str) -> None:
    assert wire_names(MODELS[schema]) == set(SCHEMAS[schema]["properties"])


@pytest.mark.parametrize("model", [wire.GetIamPolicyRequest, wire.GetPolicyOptions])
def test_a_request_of_resource_manager_has_fields_of_its_schema_only(model: type[WireModel]) -> None:
    assert wire_names(model) <= set(RESOURCE_MANAGER[model.__name__]["properties"])


def test_the_kinds_of_audit_logs_are_those_of_the_document() -> None:
    log_types = SCHEMAS["GoogleIamV1__AuditLogConfig"]["properties"]["logType"]["enum"]

    assert [member.value for member in wire.LogType] == log_types


def test_what_a_policy_does_not_say_is_not_sent() -> None:
    policy = wire.Policy(bindings=[wire.Binding(role="roles/ml.viewer", members=[])], version=1)

    assert policy.to_wire() == {"bindings": [{"role": "roles/ml.viewer", "members": []}], "version": 1}


def test_a_field_that_policies_do_not_have_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="owner"):
        wire.Policy.model_validate({"owner": "user:ann@example.com"})
