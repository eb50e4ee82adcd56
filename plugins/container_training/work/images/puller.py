"""Pulls images that a Docker Engine lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docker.api import APIClient
from docker.utils import parse_repository_tag

from container_engines.docker.driver import DockerDriver
from container_training.work.images.engine import Cancellation, stoppable_answers
from container_training.work.images.registry import FindLogin, registry_of
from training_api.errors import (
    BuildFailed,
    DiskFull,
    EngineError,
    ImageNotFound,
    RegistryUnavailable,
    TrainingError,
)
from training_api.job.image_ref import LOCAL_HOST
from training_api.retrying import ENGINE_MAY_DO_LATER


def pull_image(
    api_client: APIClient, name: str, find_login: FindLogin, cancellation: Cancellation | None = None
) -> None:
    """
    Make the engine have the newest image ``name``.

    :param find_login: the login for a registry host.
    :raises BuildFailed: the pull was cancelled.
    :raises RegistryUnavailable: its registry did not answer.
    :raises ImageNotFound: the registry refused it, or has no such image.
    :raises EngineError: as ``engine_errors``.
    """
    cancellation = cancellation or Cancellation()
    try:
        _read_pull(api_client, name, find_login, cancellation)
    except TrainingError as error:
        if cancellation.is_cancelled:  # which cuts the connection
            raise BuildFailed(f"the pull of {name} was cancelled") from error
        raise
    if cancellation.is_cancelled:
        raise BuildFailed(f"the pull of {name} was cancelled")


def _read_pull(api_client: APIClient, name: str, find_login: FindLogin, cancellation: Cancellation) -> None:
    login = find_login(registry_of(parse_repository_tag(name)[0]))
    with stoppable_answers(api_client, cancellation):
        for _ in DockerDriver(api_client).pull(name, login):
            if cancellation.is_cancelled:
                return


def ensure_image(
    api_client: APIClient,
    name: str,
    find_login: FindLogin,
    on_line: Callable[[str], None],
    cancellation: Cancellation | None = None,
) -> dict[str, Any]:
    """
    Return the engine's description of an image, pulled if the engine lacks it.

    :param name: by tag or digest, or an image id. Ids and names at ``localhost/`` are not pulled.
    :raises ImageNotFound: the engine lacks it, and the registry has none or there is none to ask.
    :raises BuildFailed: the pull was cancelled.
    :raises RegistryUnavailable: its registry did not answer.
    :raises EngineError: as ``engine_errors``.
    """
    driver = DockerDriver(api_client)
    image = driver.find_image(name)
    if image is None:
        if name.startswith((f"{LOCAL_HOST}/", "sha256:")):
            raise ImageNotFound(
                f"the engine has no image {name}, and no registry has it: build it on this engine"
            )
        on_line(f"pulling {name}")
        pull_image(api_client, name, find_login, cancellation)
        image = driver.find_image(name)
    if image is None:
        raise ImageNotFound(f"the engine has no image {name}, also after pulling it")
    return image


def base_image_id(
    api_client: APIClient,
    base: str,
    on_line: Callable[[str], None],
    find_login: FindLogin,
    cancellation: Cancellation,
) -> str:
    """
    Return the id of a base image, pulled if the engine lacks it.

    :raises BuildFailed: there is no such image, or the pull was cancelled.
    :raises RegistryUnavailable: its registry does not answer.
    """
    way_out = "; if the Dockerfile has ARG BASE_IMAGE, that build argument can name another image"
    try:
        image_id: str = ensure_image(api_client, base, find_login, on_line, cancellation)["Id"]
    except RegistryUnavailable as error:
        raise RegistryUnavailable(f"FROM {base}: {error}{way_out}") from error
    except EngineError as error:
        if isinstance(error, (*ENGINE_MAY_DO_LATER, DiskFull)):
            raise
        raise BuildFailed(f"FROM {base}: {error}{way_out}") from error
    return image_id
