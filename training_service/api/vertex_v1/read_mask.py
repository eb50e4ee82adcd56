"""``readMask`` of lists: which fields of each resource are answered. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from training_api.errors import InvalidRequest
from training_service.api.vertex_v1.body_check import OWN_FORMS
from training_service.api.vertex_v1.messages import descriptor_of

_ALL = "*"
#: Paths of one mask: a resource has about a dozen fields.
MAX_PATHS = 100

#: Names of fields in JSON, each within the one before.
_Path = tuple[str, ...]


def read_mask(text: str, name: str) -> tuple[_Path, ...]:
    """
    Return the paths that a mask names; none: all fields.

    :param text: names in camelCase or snake_case, joined by commas; those within another follow it by a dot.
    :param name: of the message, as ``message_class`` takes it.
    :raises InvalidRequest: it names a field that there is not.
    """
    paths = [path.strip() for path in text.split(",")] if text.strip() else []
    if len(paths) > MAX_PATHS:
        raise _broken(f"must name at most {MAX_PATHS} fields, got {len(paths)}")
    if _ALL in paths:
        return ()
    return tuple(_resolved(path, descriptor_of(name)) for path in paths)


def masked(resource: Mapping[str, Any], paths: Sequence[_Path]) -> dict[str, Any]:
    """Return ``resource`` with the fields at ``paths`` only; without paths, with all of them."""
    if not paths:
        return dict(resource)
    found: dict[str, Any] = {}
    for first in dict.fromkeys(path[0] for path in paths):
        if first not in resource:
            continue
        below = [path[1:] for path in paths if path[0] == first]
        found[first] = resource[first] if () in below else masked(resource[first], below)
    return found


def masked_page(
    collection: str, resources: Iterable[Mapping[str, Any]], paths: Sequence[_Path], token: str
) -> dict[str, Any]:
    """
    Return the answer to a list, in canonical JSON: what is empty is left out.

    :param token: of the next page; empty: there is none.
    """
    found = [masked(each, paths) for each in resources]
    return {**({collection: found} if found else {}), **({"nextPageToken": token} if token else {})}


def _resolved(path: str, descriptor: Descriptor) -> _Path:
    names: list[str] = []
    within: Descriptor | None = descriptor
    for part in path.split("."):
        field = _field_of(within, part)
        if field is None:
            known = ", ".join(each.json_name for each in descriptor.fields)
            raise _broken(f"must name fields of {descriptor.name}: {known}; got {path[:100]!r}")
        names.append(field.json_name)
        # A mask goes into messages, but not into the items of lists and maps, nor into what JSON writes as
        # one value, such as a time.
        is_whole = field.is_repeated or (field.message_type and field.message_type.full_name in OWN_FORMS)
        within = None if is_whole else field.message_type
    return tuple(names)


def _field_of(descriptor: Descriptor | None, name: str) -> FieldDescriptor | None:
    if descriptor is None:
        return None
    return next((each for each in descriptor.fields if name in (each.name, each.json_name)), None)


def _broken(description: str) -> InvalidRequest:
    return InvalidRequest.of("readMask", description)
