"""Projects, known only by name, and the accounts of their jobs. Pure."""

from __future__ import annotations

from training_api.job.dialect import Dialects
from training_api.job.job_spec import JobSpec

#: A project's id or number, domain-scoped ids (``example.com:project``) included. The real rule is stricter
#: (6 to 30 characters); tutorials use shorter names, and they do no harm here.
PROJECT_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9.:_-]{0,127}$"


def account_of(spec: JobSpec, dialects: Dialects) -> str:
    """
    Return the email of a job's account: the one that it names, else the service agent.

    The agent is that of its dialect. Empty: it names none, and this version of the service does not speak
    its dialect.
    """
    if spec.service_account or spec.dialect not in dialects:
        return spec.service_account
    return dialects[spec.dialect].agent.email(spec.project)
