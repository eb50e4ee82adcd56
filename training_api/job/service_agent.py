"""The account that a service has in each project, and that pulls images. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from training_api.job.project_number import project_number


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAgent:
    """
    The service agent of one service, in all projects.

    :param domain: the service in its address: ``cloud-ml.google.com``.
    :param role: what it has in its own project from the start.
    :param denied: the sentence about an image that it may not pull, with ``{email}``, ``{role}`` and
        ``{resource}``.
    """

    domain: str
    role: str
    denied: str

    def email(self, project: str) -> str:
        """Return its address in a project. :param project: the id, or the number."""
        return f"service-{project_number(project)}@{self.domain}.iam.gserviceaccount.com"
