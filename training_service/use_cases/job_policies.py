"""IAM policies of jobs: as every policy, but of jobs that exist. No HTTP words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from training_api.errors import JobNotFound
from training_api.iam.policy import ON_JOBS, check_permissions
from training_api.iam.wire import Policy, SetIamPolicyRequest
from training_service.model.resources import job_resource
from training_service.use_cases.jobs import Jobs
from training_service.use_cases.policies import Policies


class JobPolicies:
    """The policies of the jobs of one dialect."""

    def __init__(self, jobs: Jobs, policies: Policies) -> None:
        self._jobs = jobs
        self._policies = policies

    def get(self, project: str, job_id: str, requested_version: int = 0) -> Policy:
        """See :meth:`Policies.get`. :raises JobNotFound: there is no such job."""
        return self._policies.get(self._resource(project, job_id), requested_version)

    def set(self, project: str, job_id: str, request: SetIamPolicyRequest) -> Policy:
        """See :meth:`Policies.set`. :raises JobNotFound: there is no such job."""
        return self._policies.set(self._resource(project, job_id), request)

    def test(
        self, project: str, job_id: str, permissions: Sequence[str], may: Callable[[str], bool]
    ) -> list[str]:
        """See :meth:`Policies.test`; of a job that does not exist, nobody has any."""
        check_permissions(permissions, ON_JOBS)
        try:
            self._jobs.record(project, job_id)
        except JobNotFound:
            # discovery: "If the resource does not exist, this will return an empty set of permissions".
            return []
        return self._policies.test(permissions, ON_JOBS, may)

    def _resource(self, project: str, job_id: str) -> str:
        self._jobs.record(project, job_id)
        return job_resource(project, job_id)
