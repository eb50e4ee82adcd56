"""Whether a policy lets a principal pull images. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from training_api.iam.grants import PolicyDocument
from training_api.iam.registry_resources import BUCKET_READER, REPOSITORY_READER, ResourceKind

#: Roles with the right, by what holds the image. They are the same on the resource and on its project.
#: [roles: artifactregistry, storage]; basic roles and those of service agents [unverified in detail].
PULLING_ROLES: Mapping[ResourceKind, frozenset[str]] = {
    ResourceKind.REPOSITORY: frozenset(
        {
            *(REPOSITORY_READER, "roles/artifactregistry.writer"),
            *("roles/artifactregistry.repoAdmin", "roles/artifactregistry.admin"),
            *("roles/ml.serviceAgent", "roles/aiplatform.customCodeServiceAgent"),
            *("roles/viewer", "roles/editor", "roles/owner"),
        }
    ),
    ResourceKind.BUCKET: frozenset(
        {
            *(BUCKET_READER, "roles/storage.objectUser"),
            *("roles/storage.objectAdmin", "roles/storage.admin"),
            *("roles/ml.serviceAgent", "roles/aiplatform.customCodeServiceAgent"),
        }
    ),
}
_EVERYBODY = frozenset({"allUsers", "allAuthenticatedUsers"})
#: Members that stand for others: a policy does not say for whom.
_SETS = ("group:", "domain:", "principalSet:")


def may_pull(policy: PolicyDocument, member: str, kind: ResourceKind) -> bool | None:
    """
    Return whether ``policy`` lets ``member`` pull; ``None``: that is open.

    It is open if a condition decides, a custom role of the member, or who is in a group.

    :param kind: of the resource that holds the image; the policy may be that of its project.
    """
    is_doubtful = False
    for binding in policy.get("bindings") or ():
        role, members = str(binding.get("role")), set(binding.get("members") or ())
        is_named = bool(members & {member, *_EVERYBODY})
        if role in PULLING_ROLES[kind]:
            if is_named and not binding.get("condition"):
                return True
            is_doubtful |= is_named or any(each.startswith(_SETS) for each in members)
        elif not role.startswith("roles/"):
            is_doubtful |= is_named
    return None if is_doubtful else False
