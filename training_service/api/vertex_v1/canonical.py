"""
From any JSON form of a message to its one canonical form, and back to a client's.

Clients of Vertex AI send names in camelCase and in snake_case, enums as names and as integers, integers as
numbers with a fraction of zero and as text, nulls, and no field whose value is zero. protobuf's own JSON
reader takes all of these; the canonical form is what its writer makes: camelCase, names of enums, 64-bit
integers as text, no zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict

from training_api.errors import InvalidRequest
from training_service.api.vertex_v1.body_check import violations_of
from training_service.api.vertex_v1.messages import descriptor_of, message_class, message_pool


def canonical(name: str, body: Any, root: str = "") -> dict[str, Any]:
    """
    Return the canonical JSON form of a message. Pure.

    :param name: as ``message_class`` takes it.
    :param body: JSON as it was parsed.
    :param root: what the API calls the message in errors, like ``custom_job``; empty: it is the request.
    :raises InvalidRequest: names every unknown field, and every value that does not fit its field.
    """
    if violations := violations_of(descriptor_of(name), body, root):
        raise InvalidRequest(violations)
    read = ParseDict(body, message_class(name)(), descriptor_pool=message_pool())
    found: dict[str, Any] = MessageToDict(read, descriptor_pool=message_pool())
    return found


def with_integer_enums(name: str, resource: Mapping[str, Any]) -> dict[str, Any]:
    """Return a canonical form as ``$alt=json;enum-encoding=int`` asks for it. Pure."""
    read = ParseDict(dict(resource), message_class(name)(), descriptor_pool=message_pool())
    found: dict[str, Any] = MessageToDict(read, descriptor_pool=message_pool(), use_integers_for_enums=True)
    return found
