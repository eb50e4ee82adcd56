"""Labels that say what an image was built from, and how to read them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from container_training.work.images.build_context import BuildContext, git_revision
from container_training.work.images.content import ImageContent
from container_training.work.images.parts import PARTS_LABEL

#: The whole context hash; the tag has its first digits.
CONTEXT_LABEL = "container-training.context"
REVISION_LABEL = "org.opencontainers.image.revision"
CREATED_LABEL = "org.opencontainers.image.created"
BASE_NAME_LABEL = "org.opencontainers.image.base.name"


def image_labels(
    context: BuildContext, content: ImageContent, given: Mapping[str, str], now: datetime
) -> dict[str, str]:
    """
    Return the labels of an image that is built at ``now``. Its tag depends on none of them.

    :param given: the caller's labels. They win over the OCI ones; this project's win over both.

    Source of the OCI keys: github.com/opencontainers/image-spec, annotations.md.
    """
    revision = git_revision(context.directory)
    labels = {CREATED_LABEL: now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    if revision:
        labels[REVISION_LABEL] = revision
    if content.base_images:
        labels[BASE_NAME_LABEL] = content.base_images[-1]
    return {**labels, **given, CONTEXT_LABEL: content.digest, PARTS_LABEL: content.parts.to_label()}


def labels_of(image: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of an image as the engine describes it. Pure."""
    return dict((image.get("Config") or {}).get("Labels") or {})


def is_made_of(image: Mapping[str, Any], content: ImageContent) -> bool:
    """Whether the engine's ``image`` was built from ``content``. Pure."""
    return labels_of(image).get(CONTEXT_LABEL) == content.digest


def described(configuration: Mapping[str, Any], image_id: str) -> dict[str, Any]:
    """Return an image's configuration, as a registry has it, in the engine's words. Pure."""
    config = configuration.get("config")
    return {
        "Id": image_id,
        "Config": config if isinstance(config, dict) else {},
        "Created": configuration.get("created"),
    }


def first_build(image: Mapping[str, Any]) -> str:
    """Return when and from which commit an image was built, as far as its labels say. Pure."""
    labels = labels_of(image)
    built = labels.get(CREATED_LABEL) or image.get("Created") or "at an unknown time"
    revision = labels.get(REVISION_LABEL)
    return f"{built}, from commit {revision}" if revision else f"{built}, from no known commit"
