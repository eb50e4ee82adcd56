"""Builds an image on a Docker Engine, named by its parts, unless there is one already."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from docker.api import APIClient

from container_engines.docker.driver import DockerDriver
from container_training.work.images.build_context import BuildContext
from container_training.work.images.build_lock import one_build_of
from container_training.work.images.builders.build_order import BuildOrder, BuildSession, OnLine, order_build
from container_training.work.images.builders.builder import Builder, is_buildkit
from container_training.work.images.builders.buildkit_build import build_with_buildkit
from container_training.work.images.builders.classic_build import build_classic
from container_training.work.images.content import ImageContent, image_content
from container_training.work.images.dockerfile import buildkit_needs
from container_training.work.images.engine import Cancellation, EngineAddress, default_engine_url
from container_training.work.images.history import changes_since_newest
from container_training.work.images.labels import first_build, is_made_of
from container_training.work.images.puller import base_image_id, pull_image
from container_training.work.images.registry import FindLogin, find_manifest, stored_login
from training_api.errors import (
    BuildFailed,
    DiskFull,
    EngineError,
    EngineUnavailable,
    PushFailed,
    RegistryUnavailable,
)
from training_api.job.image_ref import ImageRef


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltImage:
    """
    An image that is on the engine, or with a digest in ``ref`` one that is in its registry.

    :param is_reused: an image of the same parts was on the engine or in its registry; nothing was built.
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
    builder: Builder = Builder.AUTO,
    session: BuildSession | None = None,
    engine: EngineAddress | None = None,
    cancellation: Cancellation | None = None,
) -> BuiltImage:
    """
    Return the image of ``context``: from the engine, else from the registry, else built.

    :param repository: ``HOST/PATH`` without tag: the tag is ``ctx-`` and a hash of the parts.
    :param on_line: called with each line of output as it comes, and with the reason to build or not to build.
    :param find_login: the login for a registry host, for the image and for base images to pull.
    :param labels: set on the image beside the OCI ones; an image that is found keeps the labels of its build.
    :param network_mode: network of the build's RUN steps; ``None``: the engine's default.
    :param builder: the default takes BuildKit where the Dockerfile or ``session`` needs it.
    :param session: secrets and SSH agents for the steps; their ids count in the tag, their values do not.
    :param engine: that of ``api_client``, for BuildKit's command line; default: as ``default_engine_url``.
    :raises InvalidImageRef: ``repository`` has a tag or a digest, or is malformed.
    :raises BuildContextMissing: a file of the context cannot be read.
    :raises BuildKitMissing: BuildKit is needed, and cannot be used.
    :raises BuildFailed: a step failed; the message has the step, its exit code and its last output.
    :raises DiskFull: the engine's disk is full.
    :raises RegistryUnavailable: a base image has to be pulled, and its registry does not answer.
    :raises EngineUnavailable: the engine does not answer.
    """
    cancellation = cancellation or Cancellation()
    build = _Build(
        api_client=api_client,
        context=context,
        on_line=on_line,
        find_login=find_login,
        labels=labels or {},
        network_mode=network_mode,
        builder=builder,
        session=session or BuildSession(),
        engine=engine or EngineAddress(url=default_engine_url()),
        cancellation=cancellation,
    )
    with tempfile.TemporaryFile(prefix="build-context-") as archive:
        content = image_content(
            context,
            repository,
            archive,
            lambda base: base_image_id(api_client, base, on_line, find_login, cancellation),
            build.session.ids,
        )
        return build.image_of(content, archive)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Build:
    """The build of one image."""

    api_client: APIClient
    context: BuildContext
    on_line: OnLine
    find_login: FindLogin
    labels: Mapping[str, str]
    network_mode: str | None
    builder: Builder
    session: BuildSession
    engine: EngineAddress
    cancellation: Cancellation

    def image_of(self, content: ImageContent, archive: BinaryIO) -> BuiltImage:
        found = self._on_engine(content)
        if found is None:
            with one_build_of(content.ref, self.cancellation, self.on_line):
                # The last holder of the lock may have built it.
                found = self._on_engine(content) or self._from_registry(content)
                if found is None:
                    return self._built(content, archive)
        return BuiltImage(ref=content.ref, image_id=found["Id"], is_reused=True)

    def _on_engine(self, content: ImageContent) -> dict[str, Any] | None:
        image = DockerDriver(self.api_client).find_image(str(content.ref))
        if image is None or not is_made_of(image, content):
            return None
        self.on_line(f"{content.ref} is on the engine already: nothing is built")
        say_why(content, image, self.on_line)
        return image

    def _from_registry(self, content: ImageContent) -> dict[str, Any] | None:
        """Return the image, pulled, if another machine has built and pushed it."""
        ref = content.ref
        try:
            if find_manifest(ref, login=self.find_login(ref.host)) is None:
                self.on_line(f"neither the engine nor registry {ref.host} has {ref}")
                return None
            self.on_line(f"registry {ref.host} has {ref}: pulling it, which is less than building it")
            pull_image(self.api_client, str(ref), self.find_login, self.cancellation)
        except (EngineUnavailable, DiskFull):
            raise
        except (RegistryUnavailable, PushFailed, EngineError) as error:
            # A build needs no registry, and the push will say what is wrong with it.
            self.on_line(f"the engine has no {ref}, and it cannot be had from its registry: {error}")
            return None
        image = DockerDriver(self.api_client).find_image(str(ref))
        if image is None or not is_made_of(image, content):
            self.on_line(f"the registry's {ref} was not built from this content, and is not used")
            return None
        say_why(content, image, self.on_line)
        return image

    def _built(self, content: ImageContent, archive: BinaryIO) -> BuiltImage:
        ref = content.ref
        order = order_build(
            self.context,
            content,
            archive,
            labels=self.labels,
            network_mode=self.network_mode,
            on_line=self.on_line,
            cancellation=self.cancellation,
            session=self.session,
        )
        for line in changes_since_newest(self.api_client, content):
            self.on_line(line)
        last_output = self._run(order)
        image = DockerDriver(self.api_client).find_image(str(ref))
        if image is None:
            raise BuildFailed(f"the build of {ref} ended without an image{last_output}")
        return BuiltImage(ref=ref, image_id=image["Id"], is_reused=False)

    def _run(self, order: BuildOrder) -> str:
        """Build; return the last output, where the builder keeps it."""
        needs = [*buildkit_needs(self.context.dockerfile_text()), *self.session.ids]
        if not is_buildkit(self.builder, needs):
            return build_classic(self.api_client, order)
        self.on_line(f"BuildKit builds it, for {', '.join(needs) or 'it was asked for'}")
        build_with_buildkit(order, self.engine)
        return ""


def say_why(content: ImageContent, image: Mapping[str, Any], on_line: OnLine) -> None:
    """Say why ``image`` is the one of ``content``, and where it comes from."""
    for line in _same_parts(content):
        on_line(line)
    on_line(f"found as {image['Id']}, built {first_build(image)}; it keeps the labels of that build")


def _same_parts(content: ImageContent) -> list[str]:
    """Return what was compared, one line per kind of part. Pure."""
    files = len(content.parts.files or ())
    arguments = ", ".join(sorted(content.parts.build_args)) or "none"
    bases = ", ".join(f"{name} ({digest})" for name, digest in content.parts.base_images.items()) or "none"
    return [
        f"its label has the same content hash: {content.digest}",
        f"compared: {files} files of the context, {content.parts.dockerfile} among them",
        f"compared: build arguments: {arguments}; base images: {bases}",
    ]
