"""Pull an image onto a Docker Engine."""

from __future__ import annotations

from collections.abc import Callable

from docker.api import APIClient
from docker.utils import parse_repository_tag

from container_engines.docker.driver import DockerDriver
from container_training.work.images.engine import Cancellation, stoppable_answers
from container_training.work.images.registry import FindLogin, registry_of
from training_api.errors import BuildFailed, DiskFull, EngineError, RegistryUnavailable, TrainingError
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
    driver = DockerDriver(api_client)
    image = driver.find_image(base)
    if image is None:
        on_line(f"pulling the base image {base}")
        _pull_base(api_client, base, find_login, cancellation)
        image = driver.find_image(base)
    if image is None:
        raise BuildFailed(f"FROM {base}: the engine has no such image, also after pulling it")
    image_id: str = image["Id"]
    return image_id


def _pull_base(api_client: APIClient, base: str, find_login: FindLogin, cancellation: Cancellation) -> None:
    way_out = "; if the Dockerfile has ARG BASE_IMAGE, that build argument can name another image"
    try:
        pull_image(api_client, base, find_login, cancellation)
    except RegistryUnavailable as error:
        raise RegistryUnavailable(f"FROM {base}: {error}{way_out}") from error
    except EngineError as error:
        if isinstance(error, (*ENGINE_MAY_DO_LATER, DiskFull)):
            raise
        raise BuildFailed(f"FROM {base}: {error}{way_out}") from error
