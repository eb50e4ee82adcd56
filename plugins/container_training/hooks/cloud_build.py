"""Google Cloud Build and its staging bucket, over the Google provider's own hooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from container_training.hooks.closing import ClosingHook
from container_training.hooks.storage import StorageHook
from container_training.work.images.cloud_build import OWN_TAG, CloudBuild
from container_training.work.object_store import ObjectStore
from training_api.cached import cached_property
from training_api.errors import (
    BuildFailed,
    EngineBusy,
    EngineUnavailable,
    InvalidRequest,
    ResultsMissing,
)
from training_api.iam.registry_wire import ACCESS_TOKEN_USER
from training_api.job.image_ref import ImageRef

if TYPE_CHECKING:
    from airflow.providers.google.cloud.hooks.cloud_build import CloudBuildHook as ProviderHook

_PAGE_SIZE = 100


class CloudBuildHook(ClosingHook):
    """
    Builds of one project and location; close it after use.

    :param gcp_conn_id: connection of type ``google_cloud_platform``.
    :param project_id: default: the connection's.
    :param location: region, or ``global``.
    :param impersonation_chain: as for the provider's hooks.
    """

    conn_name_attr = "gcp_conn_id"
    default_conn_name = StorageHook.default_conn_name
    kept = ("store",)

    def __init__(
        self,
        gcp_conn_id: str = default_conn_name,
        *,
        project_id: str | None = None,
        location: str = "global",
        impersonation_chain: str | Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self.gcp_conn_id = gcp_conn_id
        self.project_id = project_id
        self.location = location
        self.impersonation_chain = impersonation_chain

    @cached_property
    def provider(self) -> ProviderHook:
        """The provider's hook; made on first use."""
        # Imported here: it takes seconds, which no DAG parse may cost.
        from airflow.providers.google.cloud.hooks.cloud_build import CloudBuildHook as ProviderHook

        self.get_connection(self.gcp_conn_id)  # whose error says more than the provider's
        return ProviderHook(gcp_conn_id=self.gcp_conn_id, impersonation_chain=self.impersonation_chain)

    @cached_property
    def store(self) -> ObjectStore:
        """The object store, with the same credentials; made on first use."""
        from airflow.providers.google.cloud.hooks.gcs import GCSHook

        hook = GCSHook(gcp_conn_id=self.gcp_conn_id, impersonation_chain=self.impersonation_chain)
        return ObjectStore(hook.get_conn())

    @cached_property
    def project(self) -> str:
        """
        The project of the builds.

        :raises InvalidRequest: neither the task nor the connection names one.
        """
        with _cloud_errors(f"reading the project of connection {self.gcp_conn_id!r}", "to read its key"):
            project = self.project_id or self.provider.project_id
        if not project:
            rule = f"must be given, or be in connection {self.gcp_conn_id!r} (extra project)"
            raise InvalidRequest.of("project_id", rule)
        return project

    def upload(self, uri: str, archive: BinaryIO) -> int:
        """
        Make ``uri`` hold ``archive``, unless there is an object; return its generation.

        :raises InvalidRequest: there is no such bucket.
        :raises BuildFailed: the account may not write there.
        """
        with _cloud_errors(
            f"storing the build context at {uri}", "storage.objects.create and storage.objects.get"
        ):
            try:
                return self.store.write_new(uri, archive, "application/gzip")
            except ResultsMissing as error:
                rule = f"must be in a bucket that exists: {error}"
                raise InvalidRequest.of("staging_dir", rule) from error

    def create(self, request: Mapping[str, Any]) -> str:
        """Start a build; return its id. :raises InvalidRequest: Cloud Build knows no such one."""
        build, options = dict(request), dict(request.get("options", {}))
        if "machine_type" in options:
            build["options"] = options | {"machine_type": _machine_type(options["machine_type"])}
        try:
            with self._errors("starting a build"):
                _, build_id = self.provider.create_build_without_waiting_for_result(
                    build=build, project_id=self.project, location=self.location
                )
        except (KeyError, TypeError, ValueError) as error:  # of what makes the message
            raise InvalidRequest.of("build", f"must be what Cloud Build knows: {error}") from error
        return str(build_id)

    def find_running(self, ref: ImageRef) -> CloudBuild | None:
        """Return a running build of the same content, such as that of an earlier try."""
        with self._errors("looking for builds of the same content"):
            builds = self.provider.list_builds(
                project_id=self.project,
                location=self.location,
                page_size=_PAGE_SIZE,
                filter_=f'tags="{OWN_TAG}" AND tags="{ref.tag}"',
            )
        for build in map(CloudBuild.of, builds):
            if not build.is_over and build.images == (str(ref),):
                return build
        return None

    def get(self, build_id: str, *, seconds: float | None = None) -> CloudBuild:
        """
        Return a build.

        :param seconds: limit of the one question that is asked; ``None``: it is asked again while Cloud Build
            is not available, for ten minutes at most.
        """
        once: dict[str, Any] = {} if seconds is None else {"retry": None, "timeout": seconds}
        with self._errors(f"reading build {build_id}"):
            return CloudBuild.of(
                self.provider.get_build(id_=build_id, project_id=self.project, location=self.location, **once)
            )

    def cancel(self, build_id: str) -> None:
        """Cancel a running build."""
        with self._errors(f"cancelling build {build_id}"):
            self.provider.cancel_build(id_=build_id, project_id=self.project, location=self.location)

    def registry_login(self) -> dict[str, Any]:
        """
        Return the login for Google's registries: an access token.

        :raises EngineUnavailable: Google gives none.
        """
        from google.auth.transport.requests import Request

        with _cloud_errors("getting a token for Google's registries", "roles/artifactregistry.reader"):
            credentials = self.provider.get_credentials()
            if not credentials.valid:
                credentials.refresh(Request())  # type: ignore[no-untyped-call]
        return {"username": ACCESS_TOKEN_USER, "password": credentials.token or ""}

    def get_conn(self) -> ProviderHook:
        """Return the provider's hook, the same one each time."""
        return self.provider

    @contextmanager
    def _errors(self, action: str) -> Iterator[None]:
        with _cloud_errors(f"{action} in project {self.project}", "roles/cloudbuild.builds.editor"):
            yield


def _machine_type(name: str) -> Any:
    from google.cloud.devtools.cloudbuild_v1.types import BuildOptions

    known = BuildOptions.MachineType.__members__
    if name not in known:
        raise InvalidRequest.of("machine_type", f"must be one of {', '.join(known)}, got {name!r}")
    return known[name]


@contextmanager
def _cloud_errors(action: str, permission: str) -> Iterator[None]:
    """Turn Google's errors into the project's."""
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError

    try:
        yield
    except (exceptions.Forbidden, exceptions.Unauthorized) as error:
        raise BuildFailed(f"{action} was refused: {error.message}; the account needs {permission}") from error
    except exceptions.TooManyRequests as error:
        raise EngineBusy(f"{action} has to wait: {error.message}") from error
    except (exceptions.ServerError, exceptions.RetryError, GoogleAuthError) as error:
        raise EngineUnavailable(f"{action} failed: {error}") from error
    except exceptions.GoogleAPICallError as error:
        raise BuildFailed(f"{action} was refused: {error.message}") from error
