"""Projects, known only by name, and their service accounts. Pure."""

from __future__ import annotations

from training_api.job.job_spec import JobSpec
from training_api.job.project_number import project_number

#: A project's id or number, domain-scoped ids (``example.com:project``) included. The real rule is stricter
#: (6 to 30 characters); tutorials use shorter names, and they do no harm here.
PROJECT_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9.:_-]{0,127}$"


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
