"""What clients need in their environment to work against the local stack unchanged."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from local_stack.errors import LocalStackError
from local_stack.parts.airflow import passwords_file
from local_stack.parts.base_image import BaseImage
from local_stack.people.airflow_users import ORPHAN_FINDER, ensure_password
from local_stack.settings import LOOPBACK, STORAGE_CLIENTS, Part, StackSettings
from local_stack.stack import LocalStack

CLOUDSDK_APIS = ("ML", "LOGGING", "CLOUDRESOURCEMANAGER", "ARTIFACTREGISTRY", "IAM")
"""APIs of gcloud that the training service answers at its root."""


def client_environment(
    settings: StackSettings, *, base_image: str, finder_password: str = ""
) -> dict[str, str]:
    """
    Return the variables for gcloud, Google's clients, Docker and the orphan search. Pure.

    Sources: gcloud's properties (``gcloud topic configurations``: CLOUDSDK_SECTION_PROPERTY);
    STORAGE_EMULATOR_HOST of the google-cloud-storage client.
    """
    endpoint = f"{settings.training_url}/"
    environment = {
        # A configuration of its own, so that the user's accounts and properties stay out of it.
        "CLOUDSDK_CONFIG": str(settings.state_dir.absolute() / "gcloud"),
        "CLOUDSDK_CORE_PROJECT": settings.project,
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "1",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "1",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{settings.object_store_url}/storage/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM": f"{settings.vertex_url}/",
        "CLOUDSDK_ML_ENGINE_POLLING_INTERVAL": "2",
        "GOOGLE_CLOUD_PROJECT": settings.project,
        "STORAGE_EMULATOR_HOST": settings.object_store_url,
        **STORAGE_CLIENTS,
        "TRAINING_ENDPOINT": settings.training_url,
        # Each ready for the SDK's api_endpoint; the first for api_transport="rest".
        "VERTEX_ENDPOINT": settings.vertex_url,
        "VERTEX_GRPC_ENDPOINT": f"{LOOPBACK}:{settings.grpc_port}",
        **settings.vertex_environment,
        # For Python's clients of the registry.
        **settings.authorities_environment,
        "JOB_BUCKET": settings.job_bucket,
        "IMAGE_PREFIX": settings.image_prefix,
        "BASE_IMAGE": base_image,
        # For ``python -m container_training orphans``: a user who may only read.
        "AIRFLOW_URL": settings.airflow_url,
        "AIRFLOW_USER": ORPHAN_FINDER,
        "AIRFLOW_PASSWORD": finder_password,
        # The login for the registry; the user's own ~/.docker is left alone.
        "DOCKER_CONFIG": str(settings.docker_config_dir),
        # For ``python -m training_service secret``, which needs no running service.
        "TRAINING_SECRETS_DIR": str(settings.secrets_dir),
        "TRAINING_TOKEN_FILE": str(settings.developer_token_file),
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(settings.developer_token_file),
    }
    environment |= {f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api}": endpoint for api in CLOUDSDK_APIS}
    if (
        settings.engine_url != settings.default_engine_url
        or str(settings.engine_socket) != "/var/run/docker.sock"
    ):
        environment["DOCKER_HOST"] = settings.engine_url
    return environment


def export_lines(environment: Mapping[str, str]) -> list[str]:
    """Return ``export NAME='value'`` lines for any POSIX shell, sorted by name."""
    return [f"export {name}={_quoted(value)}" for name, value in sorted(environment.items())]


def print_environment(stack: LocalStack) -> None:
    """
    Print the export lines of the stack that runs.

    :raises LocalStackError: it does not run, or not completely.
    """
    down = [name.value for name in (Part.OBJECT_STORE, Part.TRAINING) if not stack.parts[name].is_healthy()]
    if down:
        raise LocalStackError(
            f"the local stack is not up: {' and '.join(down)} must answer; run `make serve` first"
        )
    environment = client_environment(
        stack.settings,
        base_image=BaseImage.name_of(stack.settings),
        finder_password=ensure_password(passwords_file(stack.settings), ORPHAN_FINDER),
    )
    (stack.settings.state_dir / "gcloud").mkdir(parents=True, exist_ok=True, mode=0o700)
    print("\n".join(export_lines(environment)))


def _quoted(value: str) -> str:
    # shlex.quote leaves plain words bare; quotes everywhere read better in a list.
    quoted = shlex.quote(value)
    return quoted if quoted.startswith("'") else f"'{quoted}'"
