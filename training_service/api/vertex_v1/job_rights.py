"""What a caller needs for a job beside the right to make one."""

from __future__ import annotations

from training_api.job.job_spec import JobSpec
from training_service.access.control import AccessControl
from training_service.access.decision import Caller
from training_service.access.roles import ACT_AS, SECRET_ACCESS
from training_service.model.resources import account_resource


def check_rights_of_job(access: AccessControl, caller: Caller, spec: JobSpec) -> None:
    """
    Check that ``caller`` may have a job do what it is to do.

    :raises AccessDenied: the caller may not act as its account, or name a secret.
    """
    if spec.service_account:
        access.check(caller, ACT_AS, account_resource(spec.service_account))
    if spec.secrets:
        access.check(caller, SECRET_ACCESS, f"projects/{spec.project}")
