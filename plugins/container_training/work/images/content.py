"""What an image will be called, found out from what it is made of, before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from container_training.work.images.build_context import BuildContext, content_tag, context_hash
from container_training.work.images.dockerfile import base_images
from container_training.work.images.parts import ImageParts, image_parts
from training_api.errors import InvalidImageRef
from training_api.job.image_ref import ImageRef, parse_image_ref


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageContent:
    """
    What decides an image.

    :param ref: its name, with a tag that is derived from ``digest``.
    :param digest: SHA-256, hexadecimal, of all that decides it.
    :param base_images: what the Dockerfile starts or copies from, in order.
    """

    ref: ImageRef
    digest: str
    base_images: tuple[str, ...]
    parts: ImageParts


def repository_name(repository: str) -> ImageRef:
    """
    Return the name of an image that its contents will give a tag.

    :raises InvalidImageRef: ``repository`` has a tag or a digest, or is malformed.
    """
    name = parse_image_ref(repository)
    if name.tag or name.digest:
        raise InvalidImageRef(
            f"image {repository!r} must have no tag and no digest; its contents decide the tag"
        )
    return name


def image_content(
    context: BuildContext,
    repository: str,
    archive: BinaryIO,
    base_image_id: Callable[[str], str],
    session_ids: Sequence[str] = (),
) -> ImageContent:
    """
    Return what decides the image of ``context``, and write the packed context to ``archive``.

    :param repository: ``HOST/PATH`` without tag.
    :param base_image_id: the engine's id of an image that the Dockerfile starts or copies from.
    :param session_ids: ids of the secrets and SSH agents that the steps may use.
    :raises InvalidImageRef: ``repository`` has a tag or a digest, or is malformed.
    :raises BuildContextMissing: a file of the context cannot be read.
    """
    name = repository_name(repository)
    files: dict[str, str] = {}
    archive_digest = context.pack(archive, files)
    bases = base_images(context.dockerfile_text(), context.build_args)
    ids = {base: base_image_id(base) for base in bases}
    digest = context_hash(
        archive_digest=archive_digest,
        dockerfile=context.dockerfile,
        build_args=context.build_args,
        base_image_ids=ids,
        session_ids=session_ids,
    )
    return ImageContent(
        ref=replace(name, tag=content_tag(digest)),
        digest=digest,
        base_images=bases,
        parts=image_parts(
            dockerfile=context.dockerfile, files=files, build_args=context.build_args, base_image_ids=ids
        ),
    )
