"""Giving the training service's account access to a job's image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from container_training.core.errors import AccessDenied, ServiceError
from container_training.core.image_ref import ImageRef, RegistryKind, parse_image_ref
from container_training.hooks.failures import final_unless_transient
from container_training.hooks.training import TrainingHook

if TYPE_CHECKING:
    from airflow.sdk import Context

_READER_ROLE = {
    RegistryKind.ARTIFACT_REGISTRY: "roles/artifactregistry.reader",
    RegistryKind.CONTAINER_REGISTRY: "roles/storage.objectViewer",
    RegistryKind.OTHER: "roles/artifactregistry.reader",
}


class GrantRegistryAccessOperator(BaseOperator):
    """
    Sees to it that the project's service agent may pull ``image``.

    An image of the job's own project needs no grant, and the task says so. For an image of another project the task
    fails and names the member, the role and the repository, so that the grant can be made by hand.

    :param image: image reference (templated).
    :return: ``granted``, ``service_account``, ``project``, ``image_project``, ``repository`` and ``reason``.
    """

    template_fields: Sequence[str] = ("image", "training_conn_id")
    ui_color = "#f0e6f6"

    def __init__(
        self, *, image: str, training_conn_id: str = TrainingHook.default_conn_name, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.image = image
        self.training_conn_id = training_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Return what was found; grants nothing yet."""
        hook = TrainingHook(self.training_conn_id)
        with final_unless_transient():
            image = parse_image_ref(self.image)
            agent = _member_of(hook)
            if image.project != hook.project:
                raise _grant_by_hand(image, agent, hook.project)
        reason = f"the image and the job are both of project {hook.project!r}: nothing has to be granted"
        self.log.info("%s may pull %s already; %s", agent, image.name, reason)
        return {
            "granted": False,
            "service_account": agent,
            "project": hook.project,
            "image_project": image.project,
            "repository": image.name,
            "reason": reason,
        }


def _member_of(hook: TrainingHook) -> str:
    agent = hook.get_config().service_account
    if not agent:
        raise ServiceError(
            f"the service names no service account for project {hook.project!r} (projects.getConfig)",
            code=500,
            status="INTERNAL",
        )
    return agent


def _grant_by_hand(image: ImageRef, agent: str, project: str) -> AccessDenied:
    role = _READER_ROLE[image.kind]
    return AccessDenied(
        f"image {image.name!r} is of project {image.project!r}, but jobs of project {project!r} pull as {agent}; "
        f"grant member 'serviceAccount:{agent}' the role {role!r} on repository {image.repository!r} of {image.host}",
        code=403,
        status="PERMISSION_DENIED",
    )
