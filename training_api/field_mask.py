"""Field masks (``google.protobuf.FieldMask``) in JSON: field names joined by commas."""

from __future__ import annotations

from collections.abc import Collection

from pydantic.alias_generators import to_snake

from training_api.errors import InvalidRequest


def parse_field_mask(text: str, allowed: Collection[str]) -> frozenset[str]:
    """
    Return the snake_case names in ``text``.

    Both spellings are accepted, and an empty text is an empty set.

    Pure.

    :param allowed: the names, in snake_case, that may be in the mask.
    :raises InvalidRequest: another name, ``*`` and deeper paths (``labels.team``) included.
    """
    paths = [path.strip() for path in text.split(",")] if text.strip() else []
    names = {path: path if "." in path else to_snake(path) for path in paths}
    unknown = [path for path, name in names.items() if name not in allowed]
    if unknown:
        description = f"must name only {', '.join(sorted(allowed))}; got {', '.join(map(repr, unknown))}"
        raise InvalidRequest.of("updateMask", description)
    return frozenset(names.values())
