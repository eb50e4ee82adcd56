"""Making the repository of Artifact Registry that images are pushed to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

from container_training.hooks.failures import final_unless_transient
from container_training.hooks.image import full_image_name
from container_training.hooks.registry_iam import RegistryIamHook
from container_training.hooks.storage import StorageHook
from container_training.hooks.training import TrainingHook
from container_training.runtime.task_arguments import OperatorArguments, TypedTask
from container_training.work.template_values import is_unset, number, whole_number
from training_api.clients.repositories import CleanUp
from training_api.errors import InvalidArgument
from training_api.iam.registry_resources import ResourceKind, registry_resource
from training_api.job.image_ref import parse_image_ref

if TYPE_CHECKING:
    from airflow.sdk import Context


class EnsureRepositoryOperator(TypedTask):
    """
    Makes the repository of Artifact Registry that an image is pushed to, unless it is there.

    It needs ``roles/artifactregistry.admin`` on the project. With ``keep_newest`` and
    ``delete_after_days`` the repository removes old images by itself; without them, the clean-up that it has
    stays as it is.

    :param image: the image that will be pushed; a short name is below the training connection's
        ``image_prefix``. (templated)
    :param keep_newest: how many versions of each image stay, however old they are. (templated)
    :param delete_after_days: after how many days the others are removed. (templated)
    :param training_conn_id: connection of the training service, whose extras say where Artifact Registry is.
        (templated)
    :param gcp_conn_id: Google connection whose credentials make it. (templated)
    :return: ``name`` of the repository, and whether it was ``created``.
    """

    template_fields: Sequence[str] = (
        "image",
        "keep_newest",
        "delete_after_days",
        "training_conn_id",
        "gcp_conn_id",
    )
    ui_color = "#e8f0e4"

    def __init__(
        self,
        *,
        image: str,
        keep_newest: int | str | None = None,
        delete_after_days: float | str | None = None,
        training_conn_id: str = TrainingHook.default_conn_name,
        gcp_conn_id: str = StorageHook.default_conn_name,
        **kwargs: Unpack[OperatorArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.image = image
        self.keep_newest = keep_newest
        self.delete_after_days = delete_after_days
        self.training_conn_id = training_conn_id
        self.gcp_conn_id = gcp_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Make it, and return its name."""
        with final_unless_transient():
            name = self._name()
            clean_up = self._clean_up()
            with RegistryIamHook(self.training_conn_id, self.gcp_conn_id).repositories() as repositories:
                created = repositories.ensure(name, clean_up)
        self.log.info("repository %s %s", name, "was made" if created else "is there")
        return {"name": name, "created": created}

    def _name(self) -> str:
        image = parse_image_ref(full_image_name(self.image, self.training_conn_id))
        resource = registry_resource(image, TrainingHook(self.training_conn_id).registry)
        if resource is None or resource.kind is not ResourceKind.REPOSITORY:
            raise InvalidArgument(
                f"image must be one of Artifact Registry, REGION-docker.pkg.dev/PROJECT/REPOSITORY/NAME, got {image}"
            )
        return resource.name

    def _clean_up(self) -> CleanUp | None:
        if is_unset(self.keep_newest) and is_unset(self.delete_after_days):
            return None
        if is_unset(self.keep_newest) or is_unset(self.delete_after_days):
            raise InvalidArgument(
                "keep_newest and delete_after_days go together: give both, or neither to leave the clean-up as it is"
            )
        return CleanUp(
            keep_newest=whole_number("keep_newest", self.keep_newest),
            delete_after=timedelta(days=number("delete_after_days", self.delete_after_days)),
        )
