"""The use cases of a job's IAM policy: get, set, test. No HTTP words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from container_training.core.errors import EditConflict, JobNotFound
from container_training.core.iam_policy import check_permissions, check_readable, merged_policy
from container_training.core.iam_wire import Policy, SetIamPolicyRequest
from training_service.job_store import JobStore
from training_service.policy_store import PolicyStore, StoredPolicy
from training_service.records import etag
from training_service.resources import job_resource


class JobPolicies:
    """The policies of all jobs: kept and answered here; what they decide is in ``access/``."""

    def __init__(self, jobs: JobStore, store: PolicyStore) -> None:
        self._jobs = jobs
        self._store = store

    def get(self, project: str, job_id: str, requested_version: int = 0) -> Policy:
        """
        Return the job's policy with its etag; an empty one if none was set.

        :param requested_version: newest form that the reader understands; 3 shows conditions.
        :raises JobNotFound: there is no such job.
        :raises InvalidRequest: the policy has conditions and the reader does not understand them.
        """
        stored = self._stored(project, job_id)
        check_readable(stored.policy, requested_version)
        return _with_etag(stored.policy, stored.version)

    def set(self, project: str, job_id: str, request: SetIamPolicyRequest) -> Policy:
        """
        Replace what the request's mask names, and return the new policy.

        :raises JobNotFound: there is no such job.
        :raises InvalidRequest: the policy breaks a rule.
        :raises EditConflict: the policy carries an etag, and the stored policy has changed since. Without an etag the
            last writer wins, as in the real API.
        """
        sent_etag = (request.policy or Policy()).etag
        while True:
            stored = self._stored(project, job_id)
            if sent_etag and sent_etag != etag(stored.version):
                raise EditConflict(
                    f"the policy of job {job_id!r} has changed since etag {sent_etag!r} was read; "
                    "get it again, apply the change and retry"
                )
            policy = merged_policy(stored.policy, request)
            if self._store.replace(job_resource(project, job_id), policy, seen_version=stored.version):
                return _with_etag(policy, stored.version + 1)

    def test(
        self, project: str, job_id: str, permissions: Sequence[str], may: Callable[[str], bool]
    ) -> list[str]:
        """
        Return those of ``permissions`` that ``may`` says the caller has on the job; of no job, none.

        :raises InvalidRequest: one is no permission on jobs.
        """
        check_permissions(permissions)
        try:
            self._jobs.get(project, job_id)
        except JobNotFound:
            # discovery: "If the resource does not exist, this will return an empty set of permissions".
            return []
        return [name for name in dict.fromkeys(permissions) if may(name)]

    def _stored(self, project: str, job_id: str) -> StoredPolicy:
        self._jobs.get(project, job_id)
        return self._store.get(job_resource(project, job_id))


def _with_etag(policy: Policy, version: int) -> Policy:
    return policy.model_copy(update={"etag": etag(version)})
