"""Names of resources with IAM policies; others are in ``training_api/iam``. Pure."""

from __future__ import annotations

import re

from training_api.iam.wire import Binding, Policy

#: Service agents have other domains: they belong to no project in which their use could be granted.
_ACCOUNT = re.compile(r"[^@/]+@(?P<project>[a-z][a-z0-9-]*)\.iam\.gserviceaccount\.com")


def job_resource(project: str, job_id: str) -> str:
    """Return the name of a job."""
    return f"projects/{project}/jobs/{job_id}"


def account_resource(email: str) -> str:
    """Return the name of a service account; its project is ``-`` if the address has none."""
    found = _ACCOUNT.fullmatch(email)
    return f"projects/{found['project'] if found else '-'}/serviceAccounts/{email}"


def owner_policy(principal: str) -> Policy:
    """Return a new job's policy: its creator gets ``roles/ml.jobOwner`` [docs: access control]."""
    return Policy(version=1, bindings=[Binding(role="roles/ml.jobOwner", members=[principal])])
