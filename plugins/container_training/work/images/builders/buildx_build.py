"""Builds with a BuildKit on another machine, which pushes the image, by docker's buildx."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from container_training.work.images.builders.build_order import BuildOrder
from container_training.work.images.builders.buildx_home import buildx_home
from container_training.work.images.builders.client_build import run_build
from container_training.work.images.builders.docker_cli import find_buildx_cli
from container_training.work.images.builders.remote_builder import RemoteBuilder
from container_training.work.images.registry import FindLogin
from training_api.errors import BuildFailed

#: More than what buildx writes, with the provenance of some hundred steps.
_MAX_METADATA_BYTES = 16 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteImage:
    """
    What a remote builder has pushed.

    :param digest: of the manifest, ``sha256:...``.
    :param image_id: the digest of the image's configuration; if the builder does not say it, ``digest``.
    """

    digest: str
    image_id: str


def build_with_buildx(
    order: BuildOrder, builder: RemoteBuilder, registries: Iterable[str], find_login: FindLogin
) -> RemoteImage:
    """
    Build and push what ``order`` says; return what was pushed.

    :param registries: hosts whose logins the builder may use: the image's, and those of its base images.
    :raises BuildKitMissing: no command line of this machine can drive it, or it knows no such builder.
    :raises BuildFailed: a step failed, or the build was cancelled.
    :raises DiskFull: the builder's disk has no room.
    :raises EngineUnavailable: the builder does not answer.
    :raises RegistryUnavailable: a registry that the build needs does not answer.
    :raises PushFailed: the registry refuses the image.
    """
    program = find_buildx_cli()
    builder.check_answers()
    with buildx_home(program, builder, registries, find_login) as home:
        command = [program, "buildx", "build", "--builder", home.builder, "--output", "type=registry"]
        if order.network_mode == "host":
            command += ["--allow", "network.host"]
        run_build([*command, "--metadata-file", str(home.metadata_file)], order, home.environment)
        return _read_metadata(home.metadata_file, order)


def _read_metadata(file: Path, order: BuildOrder) -> RemoteImage:
    """Return what buildx has pushed. Source: docs of `buildx build`, --metadata-file."""
    try:
        if file.stat().st_size > _MAX_METADATA_BYTES:
            raise ValueError(f"its description has more than {_MAX_METADATA_BYTES} bytes")
        said = json.loads(file.read_text("utf-8"))
        digest = said["containerimage.digest"]
        return RemoteImage(digest=digest, image_id=said.get("containerimage.config.digest") or digest)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BuildFailed(
            f"the build of {order.ref} ended, and buildx did not say what it has pushed: {error!r}"
        ) from error
