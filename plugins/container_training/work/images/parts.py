"""What an image is made of, part by part, and how two versions of it differ. Without I/O."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

#: A label with the parts of an image, so that a later build or plan can say what changed.
PARTS_LABEL = "container-training.parts"
#: Of the label; a context with so many files that it would be longer is remembered without them.
MAX_LABEL_BYTES = 32 * 1024
_DIGITS = 12
#: Named one by one; of more, the number is said.
_MAX_FILES_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageParts:
    """
    The parts of one image, each by the first 12 hex digits of a SHA-256.

    :param files: of the context after .dockerignore, the Dockerfile included, by path; ``None``: not known.
    :param build_args: by name; never the values.
    :param base_images: ids of the images that the Dockerfile starts or copies from, by name.
    """

    dockerfile: str
    files: Mapping[str, str] | None
    build_args: Mapping[str, str]
    base_images: Mapping[str, str]

    def to_label(self) -> str:
        """Return the value of ``PARTS_LABEL``; without the files if they are too many."""
        parts = self.to_json()
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
        if len(text) > MAX_LABEL_BYTES:
            text = json.dumps({**parts, "files": None}, sort_keys=True, separators=(",", ":"))
        return text

    def to_json(self) -> dict[str, Any]:
        """Return the parts as JSON values."""
        return {
            "dockerfile": self.dockerfile,
            "files": None if self.files is None else dict(self.files),
            "build_args": dict(self.build_args),
            "base_images": dict(self.base_images),
        }

    @classmethod
    def from_label(cls, text: str | None) -> ImageParts | None:
        """Return what ``to_label`` wrote, or ``None`` where nothing readable is written."""
        try:
            parts = json.loads(text or "")
            return cls(
                dockerfile=str(parts["dockerfile"]),
                files=None if parts["files"] is None else dict(parts["files"]),
                build_args=dict(parts["build_args"]),
                base_images=dict(parts["base_images"]),
            )
        except (ValueError, TypeError, KeyError):
            return None


def image_parts(
    *,
    dockerfile: str,
    files: Mapping[str, str],
    build_args: Mapping[str, str],
    base_image_ids: Mapping[str, str],
) -> ImageParts:
    """
    Return the parts of an image. Pure.

    :param files: SHA-256 by path, hexadecimal.
    :param build_args: values by name; kept as digests, so that no label holds a value.
    :param base_image_ids: ``sha256:...`` by name.
    """
    return ImageParts(
        dockerfile=dockerfile,
        files={name: digest[:_DIGITS] for name, digest in files.items()},
        build_args={name: _digest(value) for name, value in build_args.items()},
        base_images={name: id_.removeprefix("sha256:")[:_DIGITS] for name, id_ in base_image_ids.items()},
    )


def part_changes(before: ImageParts, after: ImageParts) -> list[str]:
    """Return what is different in ``after``, a line each; empty: nothing that is known. Pure."""
    changes = []
    if before.dockerfile != after.dockerfile:
        changes.append(f"the Dockerfile is {after.dockerfile}, was {before.dockerfile}")
    if before.files is None or after.files is None:
        changes.append("files: not known, there are too many to remember")
    else:
        changes += _named([*_different("", before.files, after.files)])
    changes += _different("build argument ", before.build_args, after.build_args)
    changes += _different("base image ", before.base_images, after.base_images)
    return changes


def _different(what: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*before, *after}):
        if name not in before:
            yield f"{what}{name} is new"
        elif name not in after:
            yield f"{what}{name} is gone"
        elif before[name] != after[name]:
            yield f"{what}{name} changed"


def _named(changes: list[str]) -> list[str]:
    more = len(changes) - _MAX_FILES_NAMED
    return changes if more <= 0 else [*changes[:_MAX_FILES_NAMED], f"and {more} files more"]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
