"""
IAM policies (``google.iam.v1``) as the three methods carry them.

``getIamPolicy``, ``setIamPolicy`` and ``testIamPermissions``.

Names and nesting are those of the discovery documents; tests compare them. The rules are in
``policy.py``.
"""

from __future__ import annotations

from enum import StrEnum

from training_api.wire import Int32, WireModel


class LogType(StrEnum):
    """Kinds of access that an audit log may note."""

    LOG_TYPE_UNSPECIFIED = "LOG_TYPE_UNSPECIFIED"
    ADMIN_READ = "ADMIN_READ"
    DATA_WRITE = "DATA_WRITE"
    DATA_READ = "DATA_READ"


class Expr(WireModel):
    """``GoogleType__Expr``: a condition in CEL; kept as it is, not evaluated."""

    description: str | None = None
    expression: str | None = None
    location: str | None = None
    title: str | None = None


class Binding(WireModel):
    """``GoogleIamV1__Binding``: a role and its principals, perhaps under a condition."""

    condition: Expr | None = None
    members: list[str] | None = None
    role: str | None = None


class AuditLogConfig(WireModel):
    """``GoogleIamV1__AuditLogConfig``."""

    exempted_members: list[str] | None = None
    log_type: LogType | None = None


class AuditConfig(WireModel):
    """``GoogleIamV1__AuditConfig``: kept as it is; the service writes no audit log."""

    audit_log_configs: list[AuditLogConfig] | None = None
    service: str | None = None


class Policy(WireModel):
    """
    ``GoogleIamV1__Policy``: who may do what with a resource.

    :param etag: of the policy that was read; a write that carries it fails if the policy has changed since.
    :param version: 1, or 3 if any binding has a condition.
    """

    audit_configs: list[AuditConfig] | None = None
    bindings: list[Binding] | None = None
    etag: str | None = None
    version: Int32 | None = None


class GetPolicyOptions(WireModel):
    """``GetPolicyOptions`` of Resource Manager: the newest policy form that the reader knows."""

    requested_policy_version: Int32 | None = None


class GetIamPolicyRequest(WireModel):
    """``GetIamPolicyRequest`` of Resource Manager, which asks by POST."""

    options: GetPolicyOptions | None = None


class SetIamPolicyRequest(WireModel):
    """``GoogleIamV1__SetIamPolicyRequest``; an absent mask is ``bindings,etag``."""

    policy: Policy | None = None
    update_mask: str | None = None


class TestIamPermissionsRequest(WireModel):
    """``GoogleIamV1__TestIamPermissionsRequest``."""

    __test__ = False  # not a test class, whatever its name

    permissions: list[str] | None = None


class TestIamPermissionsResponse(WireModel):
    """``GoogleIamV1__TestIamPermissionsResponse``: those of the request that the caller has."""

    __test__ = False

    permissions: list[str] | None = None
