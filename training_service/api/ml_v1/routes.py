"""All routes of AI Platform Training v1."""

from __future__ import annotations

from training_api.dialects.ml_v1.packages import Runtimes
from training_service.access.control import AccessControl
from training_service.api.ml_v1.iam import job_iam_router
from training_service.api.ml_v1.jobs import jobs_router
from training_service.api.ml_v1.locations import locations_router
from training_service.api.ml_v1.projects import projects_router
from training_service.api.ml_v1.wire_jobs import WireJobs
from training_service.api.routes import Routes
from training_service.use_cases.job_policies import JobPolicies
from training_service.use_cases.jobs import Jobs


def ml_v1_routers(
    jobs: Jobs, job_policies: JobPolicies, access: AccessControl, runtimes: Runtimes
) -> list[Routes]:
    """
    Return the routes of the dialect.

    :param runtimes: runtime versions, and the versions of Python that each has.
    """
    return [
        projects_router(),
        # Before the jobs: their path would take JOB:getIamPolicy for an id.
        job_iam_router(job_policies, access),
        jobs_router(WireJobs(jobs, runtimes), access),
        locations_router(),
    ]
