"""Builds an image with a remote BuildKit, unless its registry has it; needs no engine."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace

from container_training.work.images.build_context import BuildContext
from container_training.work.images.build_lock import one_build_of
from container_training.work.images.builders.build_order import BuildSession, OnLine, order_build
from container_training.work.images.builders.buildx_build import build_with_buildx
from container_training.work.images.builders.remote_builder import RemoteBuilder
from container_training.work.images.engine import Cancellation
from container_training.work.images.image_builder import BuiltImage
from container_training.work.images.registry import FindLogin, stored_login
from container_training.work.images.registry_content import content_by_registry, find_built, registries_of


def build_remotely(
    context: BuildContext,
    repository: str,
    builder: RemoteBuilder,
    *,
    on_line: OnLine,
    find_login: FindLogin = stored_login,
    labels: Mapping[str, str] | None = None,
    network_mode: str | None = None,
    session: BuildSession | None = None,
    cancellation: Cancellation | None = None,
) -> BuiltImage:
    """
    Return the image of ``context``, by tag and digest.

    It is the registry's, or ``builder`` builds and pushes it. The other arguments are those of
    ``build_image``.

    :raises InvalidImageRef: ``repository`` has a tag or a digest, is malformed, or has no registry.
    :raises BuildContextMissing: a file of the context cannot be read.
    :raises BuildKitMissing: no command line of this machine can drive the builder, or it knows no such one.
    :raises BuildFailed: a step failed; the message has the step, its exit code and its last output.
    :raises DiskFull: the builder's disk is full.
    :raises EngineUnavailable: the builder does not answer.
    :raises RegistryUnavailable: a registry does not answer.
    :raises PushFailed: the registry refuses the image.
    """
    cancellation, session = cancellation or Cancellation(), session or BuildSession()
    with tempfile.TemporaryFile(prefix="build-context-") as archive:
        content = content_by_registry(context, repository, archive, find_login, session.ids)
        with one_build_of(content.ref, cancellation, on_line):
            found = find_built(content, find_login, on_line)
            if found is not None:
                return found
            order = order_build(
                context,
                content,
                archive,
                labels=labels or {},
                network_mode=network_mode,
                on_line=on_line,
                cancellation=cancellation,
                session=session,
            )
            on_line(f"the remote builder {builder} builds and pushes it")
            made = build_with_buildx(order, builder, registries_of(content), find_login)
    return BuiltImage(ref=replace(content.ref, digest=made.digest), image_id=made.image_id, is_reused=False)
