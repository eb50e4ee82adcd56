"""From Airflow connections to a Docker Engine, registries' logins, test environments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

from container_training.hooks.closing import ClosingHook
from container_training.hooks.google_token import GoogleToken, words
from training_api.cached import cached_property
from training_api.errors import (
    AccessDenied,
    EngineUnavailable,
    InvalidImageRef,
    InvalidJobSpec,
    InvalidRequest,
)
from training_api.iam.registry_wire import ACCESS_TOKEN_USER
from training_api.job.image_ref import is_googles, names_registry

if TYPE_CHECKING:
    from airflow.sdk import Connection
    from docker.api import APIClient
    from docker.tls import TLSConfig

    from container_training.work.images.build_context import BuildContext
    from container_training.work.images.builders.remote_builder import RemoteBuilder
    from container_training.work.images.engine import EngineAddress

#: Between two messages of the engine; a registry may take minutes to store one large layer.
DEFAULT_TIMEOUT_SECONDS = 300
#: The build argument that takes the connection's base image.
BASE_IMAGE = "BASE_IMAGE"


class ImageHook(ClosingHook):
    """
    A Docker Engine, and the logins of its registries; close it after use.

    The Docker provider's own hook reaches the engine. It is not asked to log in, as it refuses a connection
    without credentials, and would make each build wait for the registry; the connection's login goes along
    with each pull and push to its host instead.

    :param docker_conn_id: connection of type ``docker``: a registry's host, port, login and password. It may
        be missing, or have no login: then the logins count that ``docker login`` or a credential helper
        keeps, if there are any, and for a registry of Google a short-lived token of the Google connection
        that the extra ``gcp_conn_id`` names (default: ``google_cloud_default``, if it gives one), with the
        extra ``impersonation_chain``. Its extras ``engine_url`` and ``cert_path`` name an engine on another
        machine, and the folder of the certificates with which to ask it; ``builder_url`` and
        ``builder_cert_path`` a ``buildkitd`` in the same way; ``builder_name`` one of this user's buildx.
    :param docker_url: the engine; default: that of the connection, else DOCKER_HOST, else the local socket.
    """

    conn_name_attr = "docker_conn_id"
    default_conn_name = "docker_default"
    kept = ("api_client",)

    def __init__(
        self,
        docker_conn_id: str | None = default_conn_name,
        *,
        docker_url: str | None = None,
        timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        super().__init__()
        self.docker_conn_id = docker_conn_id
        self.docker_url = docker_url
        self.timeout_seconds = timeout_seconds

    @cached_property
    def engine(self) -> EngineAddress:
        """Where the engine is."""
        from container_training.work.images.engine import EngineAddress, default_engine_url

        extra = self._connection_extra
        url = self.docker_url or extra.get("engine_url") or default_engine_url()
        cert_path = extra.get("cert_path") or "" if url.startswith("tcp://") else ""
        return EngineAddress(url=url, cert_path=cert_path)

    @cached_property
    def remote_builder(self) -> RemoteBuilder | None:
        """
        The builder that is no part of an engine; ``None``: the connection names none.

        :raises InvalidRequest: what the connection says of it is wrong; the message has the extra.
        """
        from container_training.work.images.builders.remote_builder import RemoteBuilder

        url, cert_path, name = (
            str(self._connection_extra.get(key) or "")
            for key in ("builder_url", "builder_cert_path", "builder_name")
        )
        if not url and not name:
            return None
        try:
            return RemoteBuilder(url=url, cert_path=cert_path, name=name)
        except InvalidRequest as error:
            raise InvalidRequest(
                [
                    replace(violation, field=f"connection {self.docker_conn_id!r}, {violation.field}")
                    for violation in error.violations
                ]
            ) from error

    @cached_property
    def api_client(self) -> APIClient:
        """
        The engine's client; made on first use.

        :raises EngineUnavailable: the engine does not answer.
        :raises InvalidRequest: the connection's ``cert_path`` has no certificates.
        """
        from airflow.providers.docker.hooks.docker import DockerHook
        from docker.utils import kwargs_from_env

        from container_training.work.images.engine import default_engine_url

        url = self.engine.url
        # The environment's TLS is for the environment's engine.
        tls = kwargs_from_env().get("tls") if url == default_engine_url() else None
        hook = DockerHook(
            docker_conn_id=None,
            base_url=url,
            tls=self._tls() if self.engine.cert_path else tls,
            timeout=self.timeout_seconds,
        )
        try:
            client: APIClient = hook.get_conn()
        except AirflowException as error:
            raise EngineUnavailable(
                f"no Docker Engine answers at {url}; start it, or set DOCKER_HOST, docker_url, or the connection's "
                "engine_url and cert_path"
            ) from error
        return client

    def _tls(self) -> TLSConfig:
        from docker.errors import TLSParameterError
        from docker.tls import TLSConfig

        class OwnAuthority(TLSConfig):
            """Trusts its authority also where REQUESTS_CA_BUNDLE is set, which requests prefers."""

            def configure_client(self, client: APIClient) -> None:
                super().configure_client(client)
                client.trust_env = False

        ca, cert, key = (str(Path(self.engine.cert_path) / f"{name}.pem") for name in ("ca", "cert", "key"))
        try:
            return OwnAuthority(client_cert=(cert, key), ca_cert=ca, verify=True)
        except TLSParameterError as error:
            rule = f"must be a folder with ca.pem, cert.pem and key.pem, got {self.engine.cert_path!r}"
            field = f"connection {self.docker_conn_id!r}, extra.cert_path"
            raise InvalidRequest.of(field, rule) from error

    def get_conn(self) -> APIClient:
        """Return the engine's client, the same one each time."""
        return self.api_client

    def find_login(self, host: str) -> dict[str, Any]:
        """Return the login for the registry ``host``; empty for an anonymous one."""
        from container_training.work.images.registry import stored_login

        connection = self._connection
        if connection is not None and connection.login and _registry_host(connection) == host:
            return {"username": connection.login, "password": connection.password or ""}
        return stored_login(host) or self._google_login(host)

    def _google_login(self, host: str) -> dict[str, Any]:
        """
        Return a login for a registry of Google, made for this use; empty for any other registry.

        :raises AccessDenied: the Google connection that is named gives no token.
        """
        if not is_googles(host):
            return {}
        try:
            token = self._google.value()
        except AccessDenied as error:
            if self._connection_extra.get("gcp_conn_id"):
                raise
            # Many of its images are public.
            self.log.warning("registry %s is asked without a login: %s", host, error)
            return {}
        return {"username": ACCESS_TOKEN_USER, "password": token} if token else {}

    @cached_property
    def _google(self) -> GoogleToken:
        extra = self._connection_extra
        conn_id = str(extra.get("gcp_conn_id") or "google_cloud_default")
        return GoogleToken(conn_id, words(extra.get("impersonation_chain")))

    @property
    def _connection_extra(self) -> Mapping[str, Any]:
        return self._connection.extra_dejson if self._connection is not None else {}

    @cached_property
    def _connection(self) -> Connection | None:
        return _find_connection(self.docker_conn_id) if self.docker_conn_id else None


def training_environment(training_conn_id: str) -> dict[str, str]:
    """
    Return the environment variables of jobs of a training connection, without the cluster's.

    They are ``GOOGLE_CLOUD_PROJECT`` (extra ``project``) and what the extra ``container_env`` lists, as an
    object or as its JSON text; nothing if there is no such connection.

    :raises InvalidJobSpec: ``container_env`` is not a flat JSON object.
    """
    connection = _find_connection(training_conn_id)
    extra = connection.extra_dejson if connection is not None else {}
    project = {"GOOGLE_CLOUD_PROJECT": str(extra["project"])} if extra.get("project") else {}
    given, field = extra.get("container_env") or {}, f"connection {training_conn_id!r}, extra.container_env"
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise InvalidJobSpec.of(field, f"is not JSON: {error}") from error
    if not isinstance(given, Mapping) or any(isinstance(value, (Mapping, list)) for value in given.values()):
        raise InvalidJobSpec.of(field, "must be a JSON object of names and plain values")
    return project | {str(name): str(value) for name, value in given.items()}


def full_image_name(image: str, training_conn_id: str) -> str:
    """
    Return ``image`` with its registry; that of a short name is the ``image_prefix``.

    :param training_conn_id: connection with that extra; it may be missing.
    :raises InvalidImageRef: ``image`` is short, and the connection is missing or has no such extra.
    """
    if names_registry(image):
        return image
    prefix = str(_extra(training_conn_id, "image_prefix")).rstrip("/")
    if not prefix:
        raise InvalidImageRef(
            f"image {image!r} has no registry host, and connection {training_conn_id!r} has no extra.image_prefix "
            "to put before it; set that, or name the image as HOST/PROJECT/NAME"
        )
    return f"{prefix}/{image}"


def open_build_context(
    directory: str | Path,
    *,
    dockerfile: str,
    build_args: Mapping[str, str] | None,
    training_conn_id: str,
) -> BuildContext:
    """
    Return the build context at ``directory``, with the connection's base image.

    If the Dockerfile declares ``ARG BASE_IMAGE`` and ``build_args`` does not name it, it takes the extra
    ``base_image`` of the connection, which may be missing.

    :raises BuildContextMissing: see ``open_context``.
    """
    from container_training.work.images.build_context import open_context
    from container_training.work.images.dockerfile import declares_argument

    context = open_context(directory, dockerfile=dockerfile, build_args=build_args)
    if BASE_IMAGE in (build_args or {}) or not declares_argument(context.dockerfile_text(), BASE_IMAGE):
        return context
    base_image = str(_extra(training_conn_id, "base_image"))
    return (
        replace(context, build_args={**context.build_args, BASE_IMAGE: base_image}) if base_image else context
    )


def _extra(conn_id: str, name: str) -> Any:
    """Return an extra of a connection; empty if either is missing."""
    connection = _find_connection(conn_id)
    return (connection.extra_dejson.get(name) if connection is not None else None) or ""


def _find_connection(conn_id: str) -> Connection | None:
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return None


def _registry_host(connection: Connection) -> str:
    """Return ``host[:port]``; the connection's host may be a URL, as ``docker login`` takes it."""
    from docker.auth import convert_to_hostname, resolve_index_name

    host = convert_to_hostname(connection.host or "")
    return resolve_index_name(f"{host}:{connection.port}" if connection.port else host)
