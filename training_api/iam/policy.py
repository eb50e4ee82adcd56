"""The documented rules of IAM policies of every resource, without I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from training_api.errors import FieldViolation, InvalidRequest
from training_api.field_mask import parse_field_mask
from training_api.iam.grants import MAX_PRINCIPALS
from training_api.iam.wire import Binding, Policy, SetIamPolicyRequest

#: Permissions on jobs [unverified: the IAM reference's list, recalled; ``ml.jobs.cancel`` is in the guide].
JOB_PERMISSIONS = frozenset(
    f"ml.jobs.{verb}"
    for verb in ("cancel", "create", "get", "getIamPolicy", "list", "setIamPolicy", "update")
)
#: discovery: Policy.version "Valid values are 0, 1, and 3".
POLICY_VERSIONS = frozenset({0, 1, 3})
CONDITIONS_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """
    The permissions that can be asked for on one kind of resource.

    :param words: the same as ``pattern``, for people.
    """

    pattern: re.Pattern[str]
    words: str


def _of_services(services: str, words: str) -> Permissions:
    return Permissions(pattern=re.compile(rf"{services}(?:\.[A-Za-z][A-Za-z0-9]*){{2,3}}"), words=words)


ON_JOBS = Permissions(
    pattern=re.compile("|".join(map(re.escape, sorted(JOB_PERMISSIONS)))),
    words=", ".join(sorted(JOB_PERMISSIONS)),
)
ON_PROJECTS = _of_services("[a-z][a-z0-9]*", "the form SERVICE.RESOURCE.VERB")
ON_REPOSITORIES = _of_services("artifactregistry", "the form artifactregistry.RESOURCE.VERB")
ON_BUCKETS = _of_services("storage", "the form storage.RESOURCE.VERB")

_MASK = frozenset({"audit_configs", "bindings", "etag", "version"})
_DEFAULT_MASK = frozenset({"bindings", "etag"})
_ROLE = re.compile(r"(?:(?:projects|organizations)/[^/\s]+/)?roles/[A-Za-z0-9_.]+")
# discovery: Binding.members.
_MEMBER = re.compile(
    r"allUsers|allAuthenticatedUsers"
    r"|(?:deleted:)?(?:user|serviceAccount|group):[^\s:@]+(?:@|\.svc\.id\.goog\[)[^\s@]+"
    r"|domain:[^\s:@]+"
    r"|(?:projectOwner|projectEditor|projectViewer):[^\s]+"
    r"|(?:deleted:)?principal(?:Set)?://[^\s]+"
)


def check_version(version: int, field: str) -> None:
    """:raises InvalidRequest: ``version``, sent as ``field``, is none that policies have."""
    if version not in POLICY_VERSIONS:
        raise InvalidRequest.of(field, f"must be 0, 1 or 3, got {version}")


def has_conditions(policy: Policy) -> bool:
    """Whether any binding holds under a condition only."""
    return any(binding.condition is not None for binding in policy.bindings or [])


def check_readable(policy: Policy, requested_version: int) -> None:
    """
    Check that a reader who understands ``requested_version`` can be shown ``policy``.

    :raises InvalidRequest: it cannot. Source: discovery, "Requests for policies with any conditional role
        bindings must specify version 3".
    """
    check_version(requested_version, "options.requestedPolicyVersion")
    if has_conditions(policy) and requested_version != CONDITIONS_VERSION:
        description = f"must be 3, as the policy has conditions; got {requested_version}"
        raise InvalidRequest.of("options.requestedPolicyVersion", description)


def merged_policy(current: Policy, request: SetIamPolicyRequest) -> Policy:
    """
    Return ``current`` with the fields of ``request`` in its mask, checked and in order.

    It has no etag.

    Pure. Bindings of the same role and condition become one, and a binding without members none. Does not
    compare etags: that belongs to the write.

    :raises InvalidRequest: with every rule that the policy breaks.
    """
    if request.policy is None:
        raise InvalidRequest.of("policy", "is required; an empty policy is {}")
    policy = request.policy
    mask = parse_field_mask(request.update_mask or "", _MASK) or _DEFAULT_MASK
    check_version(policy.version or 0, "policy.version")
    if violations := [*_broken_bindings(policy)]:
        raise InvalidRequest(violations)
    # discovery, Policy.version: conditions need version 3 in every write; without an etag one may replace
    # them all.
    if policy.version != CONDITIONS_VERSION and (
        has_conditions(policy) or (policy.etag and has_conditions(current))
    ):
        raise InvalidRequest.of(
            "policy.version", f"must be 3 where bindings have conditions, got {policy.version}"
        )
    bindings = _merged(policy.bindings or []) if "bindings" in mask else current.bindings
    audit_configs = policy.audit_configs if "audit_configs" in mask else current.audit_configs
    merged = Policy(audit_configs=audit_configs or None, bindings=bindings or None)
    return merged.model_copy(update={"version": CONDITIONS_VERSION if has_conditions(merged) else 1})


def check_permissions(permissions: Iterable[str], known: Permissions) -> None:
    """:raises InvalidRequest: names every one that is not of ``known``; wildcards are none."""
    unknown = [name for name in permissions if not known.pattern.fullmatch(name)]
    if unknown:
        raise InvalidRequest.of(
            "permissions", f"must be of {known.words}; got {', '.join(map(repr, unknown))}"
        )


def _broken_bindings(policy: Policy) -> Iterable[FieldViolation]:
    bindings = policy.bindings or []
    for place, binding in enumerate(bindings):
        field = f"policy.bindings[{place}]"
        if not _ROLE.fullmatch(binding.role or ""):
            yield FieldViolation(
                field=f"{field}.role",
                description=f"must be roles/NAME or projects/PROJECT/roles/NAME, got {binding.role!r}",
            )
        for at, member in enumerate(binding.members or []):
            if not _MEMBER.fullmatch(member):
                yield FieldViolation(
                    field=f"{field}.members[{at}]",
                    description=f"must be a principal such as user:EMAIL or serviceAccount:EMAIL, got {member!r}",
                )
        if binding.condition is not None and not binding.condition.expression:
            yield FieldViolation(
                field=f"{field}.condition.expression", description="must be set, or the condition left out"
            )
    principals = sum(len(binding.members or []) for binding in bindings)
    if principals > MAX_PRINCIPALS:
        yield FieldViolation(
            field="policy.bindings",
            description=f"must have at most {MAX_PRINCIPALS} members, got {principals}",
        )


def _merged(bindings: Iterable[Binding]) -> list[Binding]:
    members: dict[tuple[str | None, str], dict[str, None]] = {}
    first: dict[tuple[str | None, str], Binding] = {}
    for binding in bindings:
        key = (binding.role, binding.condition.model_dump_json() if binding.condition else "")
        first.setdefault(key, binding)
        members.setdefault(key, {}).update(dict.fromkeys(binding.members or []))
    return [
        binding.model_copy(update={"members": list(members[key])})
        for key, binding in first.items()
        if members[key]
    ]
