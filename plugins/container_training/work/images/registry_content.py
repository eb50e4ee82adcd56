"""What an image will be called, and whether it is there, by registries: without an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import BinaryIO

import docker.auth
from docker.utils import parse_repository_tag

from container_training.work.images.build_context import BuildContext
from container_training.work.images.builders.build_order import OnLine
from container_training.work.images.content import ImageContent, image_content
from container_training.work.images.image_builder import BuiltImage, say_why
from container_training.work.images.labels import described, is_made_of
from container_training.work.images.registry import FindLogin, find_manifest, read_configuration, registry_of
from training_api.errors import BuildFailed, InvalidImageRef, PushFailed, RegistryUnavailable
from training_api.job.image_ref import LOCAL_HOST, ImageRef

#: Docker Hub answers under another name than images have. Source: distribution/reference, normalize.go.
_HUB_HOST, _HUB_FOLDER = "registry-1.docker.io", "library"
_WAY_OUT = "; if the Dockerfile has ARG BASE_IMAGE, that build argument can name another image"


def content_by_registry(
    context: BuildContext,
    repository: str,
    archive: BinaryIO,
    find_login: FindLogin,
    session_ids: Sequence[str] = (),
) -> ImageContent:
    """
    Return what decides the image of ``context``, and write the packed context to ``archive``.

    What an engine knows of base images, their registries are asked for: the tag is that of a build on an
    engine, unless a base image is a list of platforms, of which an engine knows the one that it pulled.

    :param repository: ``HOST/PATH`` without tag.
    :param find_login: the login for a registry host.
    :param session_ids: ids of the secrets and SSH agents that the steps may use.
    :raises InvalidImageRef: ``repository`` has a tag or a digest, is malformed, or has no registry.
    :raises BuildContextMissing: a file of the context cannot be read.
    :raises BuildFailed: a base image is in no registry.
    :raises RegistryUnavailable: the registry of a base image does not answer.
    """
    if repository.startswith(f"{LOCAL_HOST}/"):
        raise InvalidImageRef(
            f"image {repository!r} must be at a registry, to which a remote builder pushes it; {LOCAL_HOST} is none"
        )
    return image_content(
        context, repository, archive, lambda base: _base_image_id(base, find_login), session_ids
    )


def registries_of(content: ImageContent) -> tuple[str, ...]:
    """Return the hosts of the image and of its base images, each once. Pure."""
    return tuple(dict.fromkeys([content.ref.host, *(registry_of(base) for base in content.base_images)]))


def find_built(content: ImageContent, find_login: FindLogin, on_line: OnLine) -> BuiltImage | None:
    """Return the image, by digest, if its registry has one that was made of the same content."""
    ref = content.ref
    login = find_login(ref.host)
    try:
        manifest = find_manifest(ref, login=login)
        if manifest is None:
            on_line(f"registry {ref.host} does not have {ref}")
            return None
        image_id = manifest.config_digest or manifest.digest
        found = read_configuration(ref, image_id, login=login) if manifest.config_digest else None
    except (RegistryUnavailable, PushFailed) as error:
        # Only the builder has to reach the registry, perhaps from another network than this process.
        on_line(f"cannot look whether {ref} is there already: {error}")
        return None
    image = described(found or {}, image_id)
    if not is_made_of(image, content):
        on_line(f"the registry's {ref} was not built from this content, and is not used")
        return None
    on_line(f"registry {ref.host} has {ref}: nothing is built")
    say_why(content, image, on_line)
    return BuiltImage(ref=replace(ref, digest=manifest.digest), image_id=image_id, is_reused=True)


def _base_image_id(base: str, find_login: FindLogin) -> str:
    """Return the id of a base image as its registry knows it."""
    if base.startswith(f"{LOCAL_HOST}/"):
        raise BuildFailed(f"FROM {base}: it is on an engine only, where a remote builder has none{_WAY_OUT}")
    try:
        manifest = find_manifest(base_image_ref(base), login=find_login(registry_of(base)))
    except RegistryUnavailable as error:
        raise RegistryUnavailable(f"FROM {base}: {error}{_WAY_OUT}") from error
    except (PushFailed, InvalidImageRef) as error:
        raise BuildFailed(f"FROM {base}: {error}{_WAY_OUT}") from error
    if manifest is None:
        raise BuildFailed(f"FROM {base}: its registry has no such image{_WAY_OUT}")
    return manifest.config_digest or manifest.digest


def base_image_ref(name: str) -> ImageRef:
    """
    Return where an image is that a Dockerfile names, as docker reads it. Pure.

    :raises InvalidImageRef: it is malformed.
    """
    bare, at, digest = name.partition("@")
    repository, tag = parse_repository_tag(bare)
    host, path = docker.auth.resolve_repository_name(repository)
    if host == docker.auth.INDEX_NAME:
        host = _HUB_HOST
        path = path if "/" in path else f"{_HUB_FOLDER}/{path}"
    return ImageRef(host=host, repository=path, tag=tag or None, digest=digest if at else None)
