"""Vertex AI's Model Registry, over the Google provider's own hook and connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import TimeoutError as OperationTimeout
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from container_training.hooks.storage import StorageHook
from container_training.work.submission.default_region import DEFAULT_REGION
from training_api.cached import cached_property
from training_api.errors import AccessDenied, InvalidArgument, RegistryMirrorFailed

if TYPE_CHECKING:
    from airflow.providers.google.cloud.hooks.vertex_ai.model_service import ModelServiceHook

#: How long to wait for an upload, in seconds: Vertex AI copies the artifacts meanwhile.
_WAIT_SECONDS = 1800.0


class VertexModelsHook(BaseHook):
    """
    The models of one project and region.

    :param gcp_conn_id: connection of type ``google_cloud_platform``.
    :param region: of Vertex AI.
    :param project_id: default: the connection's.
    """

    conn_name_attr = "gcp_conn_id"
    default_conn_name = StorageHook.default_conn_name

    def __init__(
        self,
        gcp_conn_id: str = default_conn_name,
        *,
        region: str = DEFAULT_REGION,
        project_id: str | None = None,
    ) -> None:
        super().__init__()
        self.gcp_conn_id = gcp_conn_id
        self.region = region
        self.project_id = project_id

    @cached_property
    def provider(self) -> ModelServiceHook:
        """
        The provider's hook; made on first use.

        :raises InvalidArgument: Google's library of Vertex AI cannot be imported.
        """
        # Imported here: it takes seconds, which neither a DAG parse nor a task without an upload may cost.
        try:
            from airflow.providers.google.cloud.hooks.vertex_ai.model_service import ModelServiceHook
        except ImportError as error:
            raise InvalidArgument(
                f"vertex_model needs Google's library of Vertex AI, which cannot be imported: {error}; install "
                "google-cloud-aiplatform beside apache-airflow-providers-google, or leave vertex_model out"
            ) from error
        StorageHook.get_connection(self.gcp_conn_id)  # whose error says more than the provider's
        return ModelServiceHook(gcp_conn_id=self.gcp_conn_id)

    def get_conn(self) -> ModelServiceHook:
        """Return the provider's hook, the same one each time."""
        return self.provider

    def upload(self, model_id: str, model: Mapping[str, Any]) -> str:
        """
        Upload a model, unless it is there, and return its resource name with its version.

        A repetition uploads no second model: Vertex AI takes an id once. The provider's own
        ``UploadModelOperator`` and ``upload_model`` send no id, so the request goes by the provider's client.

        :param model_id: last part of its resource name.
        :param model: fields of a ``Model``, as the provider's ``UploadModelOperator`` takes them.
        :raises InvalidArgument: Vertex AI, or its library, does not take the model; or no project is named.
        :raises AccessDenied: the account may not upload models.
        :raises RegistryMirrorFailed: Vertex AI does not answer, or has not ended the upload yet.
        """
        from google.api_core.exceptions import AlreadyExists

        with self._errors(), self.provider.get_model_service_client(self.region) as client:
            name = client.model_path(self._project, self.region, model_id)
            if found := _version_of(client, name):
                return found
            try:
                uploaded = self._begin_upload(client, model_id, model).result(timeout=_WAIT_SECONDS)
            except AlreadyExists as error:
                # An earlier try has begun the upload, and it may not be at its end.
                if found := _version_of(client, name):
                    return found
                raise RegistryMirrorFailed(
                    f"model {name} is not there yet, and its id is taken: {error.message}; if it is being "
                    "uploaded, a retry finds it"
                ) from error
            return f"{uploaded.model}@{uploaded.model_version_id}"

    def _begin_upload(self, client: Any, model_id: str, model: Mapping[str, Any]) -> Any:
        """Return the operation of an upload."""
        parent = client.common_location_path(self._project, self.region)
        try:
            return client.upload_model(request={"parent": parent, "model_id": model_id, "model": dict(model)})
        except (KeyError, TypeError, ValueError) as error:  # of what makes the message
            raise InvalidArgument(
                f"vertex_model must have fields of a Vertex AI Model, in snake_case: {error}; correct it"
            ) from error

    @property
    def _project(self) -> str:
        project = self.project_id or self.provider.project_id
        if not project:
            raise InvalidArgument(
                f"vertex_project_id must be given, or be in connection {self.gcp_conn_id!r} (extra project)"
            )
        return project

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn Google's errors into the project's."""
        from google.api_core import exceptions
        from google.auth.exceptions import GoogleAuthError

        action = f"the upload to Vertex AI's Model Registry in {self.region}"
        passing = (exceptions.ServerError, exceptions.TooManyRequests, exceptions.RetryError)
        try:
            yield
        except (exceptions.Forbidden, exceptions.Unauthorized) as error:
            raise AccessDenied(
                f"{action} was refused: {error.message}; the account needs aiplatform.models.upload and "
                "aiplatform.models.get, for one from roles/aiplatform.user"
            ) from error
        except (*passing, GoogleAuthError, OperationTimeout) as error:
            raise RegistryMirrorFailed(
                f"{action} did not finish: {error}; retry the task: it finds the model, or uploads it"
            ) from error
        except exceptions.GoogleAPICallError as error:
            raise InvalidArgument(f"{action} was refused: {error.message}; correct vertex_model") from error


def _version_of(client: Any, name: str) -> str | None:
    """Return the name of a model with its version; ``None``: there is none."""
    from google.api_core.exceptions import NotFound

    try:
        found = client.get_model(name=name)
    except NotFound:
        return None
    return f"{found.name}@{found.version_id}"
