"""
From a message of gRPC to a request of REST, and from its answer back. Pure.

Google's own front ends do this the other way round.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from google.protobuf.json_format import Error as JsonError
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from pydantic.alias_generators import to_camel

from training_api.errors import FieldViolation, InvalidRequest
from training_service.api.vertex_v1.body_check import MAX_VIOLATIONS
from training_service.api.vertex_v1.messages import descriptor_of, message_class, message_pool
from training_service.api.vertex_v1.paths import PREFIX
from training_service.grpc_api.methods import Method

_VARIABLE = re.compile(r"\{(?P<field>\w+)=(?P<form>[^}]+)\}")
#: Of an error's words and details. Clients take 8 KB of metadata for sure, and refuse more than 16 with
#: another error, which they retry: RESOURCE_EXHAUSTED.
_TRAILER_BYTES, _MOST_WORDS = 7 * 1024, 1536
_CUT = " [...] (cut to what gRPC takes; REST answers all of it)"
#: What the writer of JSON raises for values that have no JSON, such as an ``Any`` of an unknown type.
_UNWRITABLE = (JsonError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestRequest:
    """
    A request of REST.

    ``path`` and ``query`` are not encoded.
    """

    verb: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcError:
    """
    An error as gRPC says it.

    :param status: name of its code, like ``NOT_FOUND``.
    :param details: serialized ``google.rpc.Status``.
    """

    status: str
    message: str
    details: bytes


def rest_request(method: Method, sent: bytes) -> RestRequest:
    """
    Return the request that does what ``sent`` asks ``method`` for.

    :raises InvalidRequest: ``sent`` is not its message, has fields that this service does not know, or names
        no resource.
    """
    fields = _fields_of(method.request, sent)
    variable = _VARIABLE.search(method.path)
    if variable is None:
        raise ValueError(f"the path {method.path!r} must have a field in braces")
    name = _checked(variable["field"], variable["form"], fields.pop(variable["field"], ""))
    path = PREFIX + _VARIABLE.sub(lambda _: name, method.path)
    if not method.body:
        return RestRequest(verb=method.verb, path=path, query=fields)
    body = fields if method.body == "*" else fields.get(to_camel(method.body), {})
    return RestRequest(verb=method.verb, path=path, body=json.dumps(body, ensure_ascii=False).encode())


def rpc_answer(method: Method, body: bytes) -> bytes:
    """Return the message of an answer of REST."""
    found = ParseDict(json.loads(body), message_class(method.response)(), descriptor_pool=message_pool())
    answer: bytes = found.SerializeToString()
    return answer


def rpc_error(body: bytes, codes: dict[str, int]) -> RpcError:
    """
    Return the error of an answer of REST.

    :param codes: numbers of gRPC's codes by name.
    """
    error = json.loads(body)["error"]
    status = {
        "code": codes[error["status"]],
        "message": error["message"],
        "details": error.get("details", []),
    }
    details = _status_of(status)
    if _size(error["message"], details) > _TRAILER_BYTES:
        status = _shortened(status)
        details = _status_of(status)
    return RpcError(status=error["status"], message=status["message"], details=details)


def _status_of(status: Mapping[str, Any]) -> bytes:
    found = ParseDict(dict(status), message_class("google.rpc.Status")(), descriptor_pool=message_pool())
    serialized: bytes = found.SerializeToString()
    return serialized


def _size(message: str, details: bytes) -> int:
    """Return how many bytes an error takes in the trailers, where details are in base64."""
    return _encoded(message) + len(details) * 4 // 3


def _encoded(text: str) -> int:
    """Return how many bytes a text takes there: what is not printable ASCII, and %, takes three."""
    return sum(1 if 0x20 <= each <= 0x7E and each != 0x25 else 3 for each in text.encode())


def _shortened(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a status that fits into trailers: its first words, and its first violations."""
    words = status["message"][:_MOST_WORDS]
    while _encoded(words) > _MOST_WORDS:
        words = words[: len(words) * 3 // 4]
    found = {**status, "message": f"{words}{_CUT}", "details": []}
    for detail in status["details"]:
        kept: list[dict[str, Any]] = []
        for each in detail.get("fieldViolations", ()):
            short = {name: text if len(text) <= 500 else f"{text[:500]}..." for name, text in each.items()}
            fits = {**found, "details": [{**detail, "fieldViolations": [*kept, short]}]}
            if _size(found["message"], _status_of(fits)) > _TRAILER_BYTES:
                break
            kept.append(short)
            found = fits
    return found


def _fields_of(name: str, sent: bytes) -> dict[str, Any]:
    """Return a request as canonical JSON."""
    message = message_class(name)()
    full_name = descriptor_of(name).full_name
    try:
        message.ParseFromString(sent)
        if violations := [*_unknown_in(message, "")][:MAX_VIOLATIONS]:
            raise InvalidRequest(violations)
        found: dict[str, Any] = MessageToDict(message, descriptor_pool=message_pool())
    except InvalidRequest:
        raise
    except DecodeError as error:
        raise _broken(
            full_name, f"the message must be a serialized {full_name}; it cannot be read"
        ) from error
    except _UNWRITABLE as error:
        description = f"a value has no JSON form: {str(error)[:200]}; leave it out"
        raise _broken(full_name, description) from error
    return found


def _unknown_in(message: Message, path: str) -> Iterator[FieldViolation]:
    """Yield what a newer client has sent and this service would silently leave out."""
    unknown = UnknownFieldSet(message)
    for each in (unknown[index] for index in range(len(unknown))):
        yield FieldViolation(
            field=path or message.DESCRIPTOR.name,
            description=f"{message.DESCRIPTOR.full_name} has no field of the number {each.field_number} here; "
            "leave it out, or use an older client",
        )
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        below = f"{path}.{descriptor.json_name}".lstrip(".")
        for place, each in _messages_in(value):
            yield from _unknown_in(each, f"{below}{place}")


def _messages_in(value: Any) -> Iterator[tuple[str, Message]]:
    if isinstance(value, Message):
        yield "", value
    elif hasattr(value, "items"):
        yield from ((f"[{key[:100]}]", each) for key, each in value.items() if isinstance(each, Message))
    else:
        yield from ((f"[{index}]", each) for index, each in enumerate(value))


def _checked(name: str, form: str, value: Any) -> str:
    if not isinstance(value, str) or not _pattern(form).fullmatch(value):
        raise _broken(name, f"must be a name of the form {form!r}; got {str(value)[:200]!r}")
    return value


@cache
def _pattern(form: str) -> re.Pattern[str]:
    return re.compile(re.escape(form).replace(r"\*", "[^/]+"))


def _broken(name: str, description: str) -> InvalidRequest:
    return InvalidRequest([FieldViolation(field=name, description=description)])
