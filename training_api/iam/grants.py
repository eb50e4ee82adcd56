"""
Grants: one member, one role, one resource, and what they do to a policy. Without I/O.

Policies are handled as the JSON that an API sent, not as models: whatever a policy holds that this project
does not know is sent back as it came.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from training_api.errors import InvalidGrant, PolicyTooLarge
from training_api.iam.registry_resources import ResourceKind, project_resource, registry_resource
from training_api.job.image_ref import ImageRef

#: An IAM policy as its API sends it.
PolicyDocument = Mapping[str, Any]
#: discovery: Policy.bindings "can refer to up to 1,500 principals".
MAX_PRINCIPALS = 1500

_EMAIL = re.compile(r"[^\s:@/]+@[^\s:@/]+\.[^\s:@/]+")
_REPOSITORY = re.compile(
    r"projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)/repositories/(?P<id>[^/]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """
    A member that has a role on a resource.

    :param resource: name of the resource, as ``training_api/iam/registry_resources.py`` makes them.
    :param member: ``serviceAccount:EMAIL`` ...
    """

    kind: ResourceKind
    resource: str
    role: str
    member: str

    def to_json(self) -> dict[str, str]:
        """Return what an XCom or a task's state store keeps."""
        return {
            "resource_kind": self.kind.value,
            "resource": self.resource,
            "role": self.role,
            "member": self.member,
        }

    @classmethod
    def from_json(cls, stored: object) -> Self:
        """
        Return the grant in ``stored``, which may hold more than that.

        :raises InvalidGrant: a part is missing or malformed.
        """
        names = ("resource_kind", "resource", "role", "member")
        if not isinstance(stored, Mapping) or not all(isinstance(stored.get(name), str) for name in names):
            raise InvalidGrant(
                f"expected the result of GrantRegistryAccessOperator, with {', '.join(names)}; got {stored!r}"
            )
        kind, resource, role, member = (stored[name] for name in names)
        if kind not in set(ResourceKind):
            raise InvalidGrant(f"resource_kind must be one of {', '.join(ResourceKind)}, got {kind!r}")
        return cls(kind=ResourceKind(kind), resource=resource, role=role, member=member)

    def is_in(self, policy: PolicyDocument) -> bool:
        """
        Tell whether ``policy`` has it without a condition.

        With a condition, the member may not have the role now.
        """
        return any(self.member in (binding.get("members") or []) for binding in self._bindings(policy))

    def added_to(self, policy: PolicyDocument) -> dict[str, Any]:
        """
        Return ``policy`` with this grant; all else is as it was.

        :raises PolicyTooLarge: the policy names as many principals as a policy may.
        """
        bindings = list(policy.get("bindings") or [])
        principals = sum(len(binding.get("members") or []) for binding in bindings) + 1
        if principals > MAX_PRINCIPALS:
            raise PolicyTooLarge(
                f"the policy of {self.resource!r} may name at most {MAX_PRINCIPALS} principals and would "
                f"name {principals}; remove bindings that nobody needs, or grant {self.role!r} to a group"
            )
        place = next((at for at, binding in enumerate(bindings) if self._is_mine(binding)), None)
        if place is None:
            bindings.append({"role": self.role, "members": [self.member]})
        else:
            members = [*(bindings[place].get("members") or []), self.member]
            bindings[place] = {**bindings[place], "members": members}
        return {**policy, "bindings": bindings}

    def removed_from(self, policy: PolicyDocument) -> dict[str, Any]:
        """Return ``policy`` without this grant; a binding that has no members left goes with it."""
        kept = []
        for binding in policy.get("bindings") or []:
            members = binding.get("members") or []
            if self._is_mine(binding) and self.member in members:
                left = [member for member in members if member != self.member]
                if left:
                    kept.append({**binding, "members": left})
            else:
                kept.append(binding)
        return {**policy, "bindings": kept}

    def gcloud_command(self, verb: str = "add") -> str:
        """
        Return the command with which a person does the same.

        :param verb: ``add`` or ``remove``.
        """
        action = f"{verb}-iam-policy-binding"
        binding = [f"--member={self.member}", f"--role={self.role}"]
        name = self.resource.rpartition("/")[2]
        if self.kind is ResourceKind.PROJECT:
            words = ["gcloud", "projects", action, name, *binding, "--condition=None"]
        elif self.kind is ResourceKind.BUCKET:
            words = ["gcloud", "storage", "buckets", action, f"gs://{name}", *binding]
        else:
            found = _REPOSITORY.fullmatch(self.resource)
            if found is None:
                raise InvalidGrant(
                    f"{self.resource!r} is no repository: projects/P/locations/L/repositories/R"
                )
            where = [f"--project={found['project']}", f"--location={found['location']}"]
            words = ["gcloud", "artifacts", "repositories", action, found["id"], *where, *binding]
        return shlex.join(words)

    def _bindings(self, policy: PolicyDocument) -> Iterator[Mapping[str, Any]]:
        return (binding for binding in policy.get("bindings") or [] if self._is_mine(binding))

    def _is_mine(self, binding: Mapping[str, Any]) -> bool:
        return binding.get("role") == self.role and not binding.get("condition")


def service_account_member(account: str) -> str:
    """
    Return the principal of a service account, in lower case as IAM keeps it.

    ``serviceAccount:EMAIL``.

    :param account: the address, with or without ``serviceAccount:``.
    :raises InvalidGrant: it is no address.
    """
    email = account.strip().removeprefix("serviceAccount:").lower()
    if not _EMAIL.fullmatch(email):
        raise InvalidGrant(f"a service account must be NAME@DOMAIN, got {account!r}")
    return f"serviceAccount:{email}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessNeed:
    """
    What an account needs to pull an image.

    :param grant: ``None``: there is nothing to grant, for the ``reason`` given.
    """

    member: str
    grant: Grant | None
    reason: str = ""


def access_need(
    image: ImageRef,
    project: str,
    agent: str,
    *,
    account: str | None = None,
    project_role: str = "",
    registry: str = "",
) -> AccessNeed:
    """
    Return what the account that runs a job of ``project`` needs to pull ``image``. Pure.

    :param agent: address of the project's service agent, which has its own project's images.
    :param account: of another account, which needs the grant in the job's own project, too.
    :param project_role: on the image's whole project, in place of the least role; empty: the least.
    :param registry: as for :func:`registry_resource`.
    :raises InvalidGrant: an address is none.
    :raises InvalidImageRef: the reference names a project but no repository in it.
    """
    member = service_account_member(account or agent)
    if image.project == project and member == service_account_member(agent):
        reason = f"the image and the job are both of project {project!r}: nothing has to be granted"
        return AccessNeed(member=member, grant=None, reason=reason)
    resource = registry_resource(image, registry)
    if resource is None:
        reason = (
            f"no IAM policy decides about images of {image.host}: nothing can be granted; "
            "who may pull there is up to that registry"
        )
        return AccessNeed(member=member, grant=None, reason=reason)
    if project_role:
        resource = project_resource(image.project, project_role)
    grant = Grant(kind=resource.kind, resource=resource.name, role=resource.reader_role, member=member)
    return AccessNeed(member=member, grant=grant)


def policy_diff(resource: str, before: PolicyDocument, after: PolicyDocument) -> str:
    """Return how the bindings of ``resource`` change, line by line; empty if they do not."""
    lines = difflib.unified_diff(
        [*_lines(before)], [*_lines(after)], f"{resource} now", f"{resource} then", n=50, lineterm=""
    )
    return "\n".join(line for line in lines if not line.startswith("@@"))


def _lines(policy: PolicyDocument) -> Iterator[str]:
    for binding in policy.get("bindings") or []:
        yield f"- role: {binding.get('role')}"
        if condition := binding.get("condition"):
            yield f"  condition: {condition.get('title') or condition.get('expression')}"
        yield "  members:"
        yield from (f"  - {member}" for member in binding.get("members") or [])
