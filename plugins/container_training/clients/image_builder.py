"""Build an image on a Docker Engine, named by what it is made of, unless there is one already."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO

from docker.api import APIClient

from container_training.clients.build_context import BuildContext
from container_training.clients.build_lock import one_build_of
from container_training.clients.build_order import BuildOrder, OnLine
from container_training.clients.classic_build import build_classic
from container_training.clients.engine import Cancellation, find_image
from container_training.clients.image_content import ImageContent, image_content
from container_training.clients.image_history import changes_since_newest
from container_training.clients.image_labels import first_build, image_labels, is_made_of
from container_training.clients.image_puller import base_image_id, pull_image
from container_training.clients.registry import FindLogin, find_manifest, stored_login
from container_training.core.errors import (
    BuildFailed,
    DiskFull,
    EngineError,
    EngineUnavailable,
    PushFailed,
    RegistryUnavailable,
)
from container_training.core.image_ref import ImageRef


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltImage:
    """
    An image that is on the engine.

    :param is_reused: it was there before, or in its registry, made of the same parts; nothing was built.
    """

    ref: ImageRef
    image_id: str
    is_reused: bool


def build_image(
    api_client: APIClient,
    context: BuildContext,
    repository: str,
    *,
    on_line: OnLine,
    find_login: FindLogin = stored_login,
    labels: Mapping[str, str] | None = None,
    network_mode: str | None = None,
    cancellation: Cancellation | None = None,
) -> BuiltImage:
    """
    Return the image that ``context`` makes: the engine's if it has it, else that of the registry, else built.

    :param repository: ``HOST/PATH`` without tag: the tag is ``ctx-`` and a hash of the parts.
    :param on_line: called with each line of output, as it comes, and with the reason why nothing, or something, is built.
    :param find_login: the login for a registry host, for the image and for base images that the engine has to pull.
    :param labels: set on the image beside the OCI ones; those of an image that is found stay those of its build.
    :param network_mode: network of the build's RUN steps; None is the engine's default.
    :raises InvalidImageRef: ``repository`` has a tag or a digest, or is malformed.
    :raises BuildContextMissing: a file of the context cannot be read.
    :raises BuildFailed: a step failed; the message has the step, its exit code and its last output.
    :raises DiskFull: the engine's disk has no room.
    :raises RegistryUnavailable: a base image has to be pulled, and its registry does not answer.
    :raises EngineUnavailable: the engine does not answer.
    """
    cancellation = cancellation or Cancellation()
    build = _Build(api_client, context, on_line, find_login, labels or {}, network_mode, cancellation)
    with tempfile.TemporaryFile(prefix="build-context-") as archive:
        content = image_content(
            context,
            repository,
            archive,
            lambda base: base_image_id(api_client, base, on_line, find_login, cancellation),
        )
        return build.image_of(content, archive)


class _Build:
    """One image on its way to the engine."""

    def __init__(
        self,
        api_client: APIClient,
        context: BuildContext,
        on_line: OnLine,
        find_login: FindLogin,
        labels: Mapping[str, str],
        network_mode: str | None,
        cancellation: Cancellation,
    ) -> None:
        self._api_client = api_client
        self._context = context
        self._on_line = on_line
        self._find_login = find_login
        self._labels = labels
        self._network_mode = network_mode
        self._cancellation = cancellation

    def image_of(self, content: ImageContent, archive: BinaryIO) -> BuiltImage:
        found = self._on_engine(content)
        if found is None:
            with one_build_of(content.ref, self._cancellation, self._on_line):
                # Whoever held the lock may have built it.
                found = self._on_engine(content) or self._from_registry(content)
                if found is None:
                    return self._built(content, archive)
        return BuiltImage(ref=content.ref, image_id=found["Id"], is_reused=True)

    def _on_engine(self, content: ImageContent) -> dict[str, Any] | None:
        image = find_image(self._api_client, str(content.ref))
        if image is None or not is_made_of(image, content):
            return None
        self._on_line(f"{content.ref} is on the engine already: nothing is built")
        self._say_why(content, image)
        return image

    def _from_registry(self, content: ImageContent) -> dict[str, Any] | None:
        """Return the image, pulled, if another machine has built and pushed it."""
        ref = content.ref
        try:
            if find_manifest(ref, login=self._find_login(ref.host)) is None:
                self._on_line(f"neither the engine nor registry {ref.host} has {ref}")
                return None
            self._on_line(f"registry {ref.host} has {ref}: pulling it, which is less than building it")
            pull_image(self._api_client, str(ref), self._find_login, self._cancellation)
        except (EngineUnavailable, DiskFull):
            raise
        except (RegistryUnavailable, PushFailed, EngineError) as error:
            # Building needs no registry, and the push will say what is wrong with it.
            self._on_line(f"the engine has no {ref}, and it cannot be had from its registry: {error}")
            return None
        image = find_image(self._api_client, str(ref))
        if image is None or not is_made_of(image, content):
            self._on_line(f"the registry's {ref} was not built from this content, and is not used")
            return None
        self._say_why(content, image)
        return image

    def _say_why(self, content: ImageContent, image: Mapping[str, Any]) -> None:
        for line in _same_parts(content):
            self._on_line(line)
        self._on_line(
            f"found as {image['Id']}, built {first_build(image)}; it keeps the labels of that build"
        )

    def _built(self, content: ImageContent, archive: BinaryIO) -> BuiltImage:
        ref = content.ref
        self._on_line(f"building {ref} from {self._context.directory} ({archive.tell()} bytes of context)")
        for line in changes_since_newest(self._api_client, content):
            self._on_line(line)
        archive.seek(0)
        order = BuildOrder(
            ref=ref,
            archive=archive,
            dockerfile=self._context.dockerfile,
            build_args=self._context.build_args,
            labels=image_labels(self._context, content, self._labels, datetime.now(UTC)),
            network_mode=self._network_mode,
            on_line=self._on_line,
            cancellation=self._cancellation,
        )
        last_output = build_classic(self._api_client, order)
        image = find_image(self._api_client, str(ref))
        if image is None:
            raise BuildFailed(f"the build of {ref} ended without an image{last_output}")
        return BuiltImage(ref=ref, image_id=image["Id"], is_reused=False)


def _same_parts(content: ImageContent) -> list[str]:
    """Return what was compared, a line for each kind of part. Pure."""
    files = len(content.parts.files or ())
    arguments = ", ".join(sorted(content.parts.build_args)) or "none"
    bases = ", ".join(f"{name} ({digest})" for name, digest in content.parts.base_images.items()) or "none"
    return [
        f"its label has the same content hash: {content.digest}",
        f"compared: {files} files of the context, {content.parts.dockerfile} among them",
        f"compared: build arguments: {arguments}; base images: {bases}",
    ]
