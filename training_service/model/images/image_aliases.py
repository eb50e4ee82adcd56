"""Other names of images: the setting, and the look-up when a job is to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import AfterValidator

from container_engines.base import Engine, PulledImage
from training_api.errors import ImageNotFound
from training_api.job.image_ref import LOCAL_HOST, ImageRef, parse_image_ref

#: Ends a pattern that stands for all names that begin so.
_ANY = "*"


def _checked(aliases: dict[str, str]) -> dict[str, str]:
    for name, target in aliases.items():
        head = name.removesuffix(_ANY)
        if _ANY in head or "/" not in head:
            raise ValueError(
                f"TRAINING_IMAGE_ALIASES: {name!r} must be an image's name, HOST/NAME or HOST/NAME:TAG, or the "
                "beginning of one, HOST/ at least, and *"
            )
        parse_image_ref(target)
    return aliases


#: Names of images, or their beginnings with ``*`` -> the images that they stand for.
ImageAliases = Annotated[dict[str, str], AfterValidator(_checked)]


def alias_of(aliases: Mapping[str, str], image: ImageRef) -> ImageRef | None:
    """
    Return what ``image`` stands for; ``None``: itself. Pure.

    A name with its tag goes before one without, both go before beginnings, and of these the longest counts.
    """
    for name in (image.pullable, image.name):
        if name in aliases:
            return parse_image_ref(aliases[name])
    beginnings = [each for each in aliases if each.endswith(_ANY) and image.pullable.startswith(each[:-1])]
    return parse_image_ref(aliases[max(beginnings, key=len)]) if beginnings else None


def get_alias(
    engine: Engine,
    aliases: Mapping[str, str],
    image: ImageRef,
    pull: Callable[[ImageRef], PulledImage],
) -> tuple[ImageRef, PulledImage] | None:
    """
    Return what ``image`` stands for, and the image; ``None``: it stands for itself.

    An image at ``localhost/`` is everybody's, as the settings give it to them. Any other is pulled with the
    job's rights: another name gives none.

    :param pull: pulls an image with the job's rights.
    :raises ImageNotFound: the engine lacks an image at ``localhost/``.
    :raises EngineError: as ``pull``.
    """
    target = alias_of(aliases, image)
    if target is None:
        return None
    if target.host != LOCAL_HOST:
        return target, pull(target)
    present = engine.find_image(target)
    if present is None:
        raise ImageNotFound(
            f"the engine does not have {target}, which TRAINING_IMAGE_ALIASES has for {image}; build it there, or "
            "name another image"
        )
    return target, present
