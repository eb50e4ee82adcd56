"""How the image to build differs from those that were built before."""

from __future__ import annotations

from docker.api import APIClient

from container_engines.docker.errors import engine_errors
from container_training.work.images.content import ImageContent
from container_training.work.images.parts import PARTS_LABEL, ImageParts, part_changes


def changes_since_newest(api_client: APIClient, content: ImageContent) -> list[str]:
    """
    Return the changes since this project's newest image of the same name, a line each.

    :raises EngineUnavailable: the engine did not answer.
    """
    with engine_errors(f"list images of {content.ref.name}"):
        images = api_client.images(name=content.ref.name)
    for image in sorted(images, key=lambda image: image.get("Created") or 0, reverse=True):
        before = ImageParts.from_label((image.get("Labels") or {}).get(PARTS_LABEL))
        if before is not None:
            name = next(iter(image.get("RepoTags") or []), image["Id"])
            changes = part_changes(before, content.parts) or ["no part of it, as far as its label says"]
            return [f"changed since {name}:", *changes]
    return [f"the engine has no earlier image of {content.ref.name}"]
