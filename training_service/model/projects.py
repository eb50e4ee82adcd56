"""Projects, known only by name: their numbers, and their service accounts. Pure."""

from __future__ import annotations

import hashlib

from training_api.job.job_spec import JobSpec

#: A project's id or number, domain-scoped ids (``example.com:project``) included. The real rule is stricter
#: (6 to 30 characters); tutorials use shorter names, and they do no harm here.
PROJECT_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9.:_-]{0,127}$"
_MAX_NUMBER_DIGITS = 18  # of a 64-bit number


def service_agent(project: str) -> str:
    """
    Return the email of the project's service agent.

    Pure. Locally a project has no number, so twelve digits are derived from its id, always the same ones.
    Source of the form: the guide, ``service-PROJECT_NUMBER@cloud-ml.google.com.iam.gserviceaccount.com``.
    """
    return f"service-{project_number(project)}@cloud-ml.google.com.iam.gserviceaccount.com"


def account_of(spec: JobSpec) -> str:
    """Return the email of a job's account: the one that it names, else the service agent."""
    return spec.service_account or service_agent(spec.project)


def project_number(project: str) -> int:
    """Return the project's number: its id if that is one, else twelve digits derived from it."""
    if project.isdecimal() and len(project) <= _MAX_NUMBER_DIGITS:
        return int(project)
    digest = int.from_bytes(hashlib.sha256(project.encode()).digest()[:8], "big")
    return 10**11 + digest % (9 * 10**11)
