"""Pull an image onto a Docker Engine."""

from __future__ import annotations

from docker.api import APIClient
from docker.utils import parse_repository_tag

from container_training.clients.engine import engine_error, engine_errors
from container_training.clients.registry import FindLogin, is_transient, registry_of
from container_training.core.errors import DiskFull, EngineError, EngineUnavailable, RegistryUnavailable


def pull_image(api_client: APIClient, name: str, find_login: FindLogin) -> None:
    """
    Make the engine have the newest image ``name``.

    :param find_login: the login for a registry host.
    :raises RegistryUnavailable: its registry did not answer.
    :raises EngineUnavailable: the engine does not answer.
    :raises DiskFull: the engine has no room for it.
    :raises EngineError: the registry refused it, or has no such image.
    """
    repository, tag = parse_repository_tag(name)
    try:
        with engine_errors():
            # docker-py's own pull() hides what goes wrong within the stream.
            for message in api_client.pull(
                repository,
                tag=tag or "latest",
                stream=True,
                decode=True,
                auth_config=find_login(registry_of(repository)),
            ):
                if "error" in message:
                    raise engine_error(str(message["error"]))
    except EngineError as error:
        if isinstance(error, (EngineUnavailable, DiskFull)) or not is_transient(str(error)):
            raise
        raise RegistryUnavailable(f"its registry did not answer: {error}") from error
