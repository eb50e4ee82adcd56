"""The use cases of IAM policies: get, set, test. No HTTP words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from training_api.errors import EditConflict
from training_api.iam.policy import (
    Permissions,
    check_permissions,
    check_readable,
    merged_policy,
)
from training_api.iam.wire import Policy, SetIamPolicyRequest
from training_service.model.records import etag
from training_service.store.policy_store import PolicyStore


class Policies:
    """
    The policies of all resources, by resource name.

    Names: ``projects/P``, ``projects/P/jobs/J``, ``projects/P/locations/L/repositories/R``, ``buckets/B``
    (``training_api/iam/registry_resources.py``). Policies are stored and returned here; ``access/`` applies
    them. Whether a resource exists is not known here: it may be a repository or a bucket.
    """

    def __init__(self, store: PolicyStore) -> None:
        self._store = store

    def get(self, resource: str, requested_version: int = 0) -> Policy:
        """
        Return the resource's policy with its etag; an empty one if none was set.

        :param requested_version: newest form that the reader understands; 3 has conditions.
        :raises InvalidRequest: the policy has conditions and the reader does not understand them.
        """
        stored = self._store.get(resource)
        check_readable(stored.policy, requested_version)
        return _with_etag(stored.policy, stored.version)

    def set(self, resource: str, request: SetIamPolicyRequest) -> Policy:
        """
        Replace what the request's mask names, and return the new policy.

        :raises InvalidRequest: the policy breaks a rule.
        :raises EditConflict: the policy has an etag, and the stored policy has changed since. Without an etag
            the last writer wins, as in the real API.
        """
        sent_etag = (request.policy or Policy()).etag
        while True:
            stored = self._store.get(resource)
            if sent_etag and sent_etag != etag(stored.version):
                raise EditConflict(
                    f"the policy of {resource!r} has changed since etag {sent_etag!r} was read; "
                    "get it again, apply the change and retry"
                )
            policy = merged_policy(stored.policy, request)
            if self._store.replace(resource, policy, seen_version=stored.version):
                return _with_etag(policy, stored.version + 1)

    @staticmethod
    def test(permissions: Sequence[str], known: Permissions, may: Callable[[str], bool]) -> list[str]:
        """
        Return those of ``permissions`` that the caller has according to ``may``.

        :raises InvalidRequest: one is not in ``known``.
        """
        check_permissions(permissions, known)
        return [name for name in dict.fromkeys(permissions) if may(name)]


def _with_etag(policy: Policy, version: int) -> Policy:
    return policy.model_copy(update={"etag": etag(version)})
