"""
What is wrong with the JSON form of a message, every place at once.

protobuf's JSON reader stops at the first mistake, and takes some that a resource must not have: numbers of
enums that do not exist, a field given twice in two spellings, NUL in texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.json_format import Error as JsonError
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass
from pydantic.alias_generators import to_snake

from training_api.errors import FieldViolation
from training_service.api.vertex_v1.messages import message_pool

#: How deep messages may lie within each other: those of conditional parameters know no end.
MAX_DEPTH = 30
#: How many broken rules one answer names.
MAX_VIOLATIONS = 50
#: What reader and writer raise: they do not catch all that their parts do.
_UNREADABLE = (JsonError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
_MAX_SHOWN = 100
_TEXT = "text without NUL and lone surrogates"
_RULES = {
    FieldDescriptor.CPPTYPE_BOOL: "true or false",
    FieldDescriptor.CPPTYPE_STRING: _TEXT,
    FieldDescriptor.CPPTYPE_INT32: "an integer of 32 bits",
    FieldDescriptor.CPPTYPE_UINT32: "an integer of 32 bits, not negative",
    FieldDescriptor.CPPTYPE_INT64: "an integer of 64 bits",
    FieldDescriptor.CPPTYPE_UINT64: "an integer of 64 bits, not negative",
    FieldDescriptor.CPPTYPE_FLOAT: "a number",
    FieldDescriptor.CPPTYPE_DOUBLE: "a number",
}
_ANY_JSON = "without NUL, NaN, infinity and lone surrogates, and not nested a hundred deep"
#: Messages whose JSON form is a value of its own.
OWN_FORMS = {
    "google.protobuf.Any": "an object with '@type', the URL of a type of message that this service knows",
    "google.protobuf.BoolValue": "true or false",
    "google.protobuf.Duration": "seconds followed by 's', like '3600s'",
    "google.protobuf.FieldMask": "names of fields in camelCase, joined by commas",
    "google.protobuf.Int32Value": "an integer of 32 bits",
    "google.protobuf.ListValue": f"a list {_ANY_JSON}",
    "google.protobuf.Struct": f"an object {_ANY_JSON}",
    "google.protobuf.Timestamp": "an RFC 3339 time like '2026-01-31T12:00:00Z'",
    "google.protobuf.Value": f"a JSON value {_ANY_JSON}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """
    Where in a request a value is.

    :param root: the name of the message that was sent.
    :param path: from there on, as in JSON: ``jobSpec.workerPoolSpecs[0]``.
    """

    root: str
    path: str = ""
    depth: int = 0

    def field(self, name: str) -> _Place:
        return replace(self, path=f"{self.path}.{name}".lstrip("."), depth=self.depth + 1)

    def item(self, key: object) -> _Place:
        return replace(self, path=f"{self.path}[{_shortened(str(key))}]")

    def broken(self, description: str) -> FieldViolation:
        return FieldViolation(field=self.path or self.root, description=description)

    def must_be(self, rule: str, value: Any) -> FieldViolation:
        return self.broken(f"must be {rule}; got {_shortened(repr(value))}")

    def unknown(self, name: str) -> FieldViolation:
        """In the words of the real API, which has the names of the protobuf."""
        parts = [self.root, *map(to_snake, self.path.split("."))]
        within = ".".join(part for part in parts if part)
        place = f" at '{within}'" if within else ""
        shown = _shortened(name)
        return replace(
            self.field(shown).broken(""), description=f'Unknown name "{shown}"{place}: Cannot find field.'
        )


@dataclass(frozen=True, slots=True)
class _Sent:
    """A field of a message, and what was sent for it: for an item, a list of that one."""

    owner: Descriptor
    field: FieldDescriptor
    json: Any

    def is_readable(self) -> bool:
        """Tell whether protobuf's reader takes it, and its writer what came of it."""
        message = GetMessageClass(self.owner)
        try:
            read = ParseDict({self.field.json_name: self.json}, message(), descriptor_pool=message_pool())
            MessageToDict(read, descriptor_pool=message_pool())
        except _UNREADABLE:
            return False
        return True


def violations_of(descriptor: Descriptor, body: Any, root: str) -> list[FieldViolation]:
    """
    Return what keeps ``body`` from being read as a message; empty: nothing does. Pure.

    :param root: what the API calls the message; empty: it is the request itself.
    """
    return list(islice(_of_message(descriptor, body, _Place(root=root)), MAX_VIOLATIONS))


def _of_message(descriptor: Descriptor, body: Any, place: _Place) -> Iterator[FieldViolation]:
    if not isinstance(body, dict):
        yield place.must_be("an object", body)
        return
    if place.depth > MAX_DEPTH:
        yield place.broken(f"must not lie more than {MAX_DEPTH} fields deep; nest fewer")
        return
    names = {field.json_name: field for field in descriptor.fields}
    names |= {field.name: field for field in descriptor.fields}
    given: dict[str, str] = {}
    for name, value in body.items():
        field = names.get(name)
        if field is None:
            yield place.unknown(name)
        elif value is not None or _takes_null(field):  # otherwise it is as if it were absent
            here = place.field(field.json_name)
            if other := _in_the_way(field, given):
                yield here.broken(f"cannot be set together with {other!r}; leave one of the two out")
            given[field.json_name] = name
            yield from _of_field(descriptor, field, value, here)


def _in_the_way(field: FieldDescriptor, given: Mapping[str, str]) -> str:
    """Return what was given that excludes ``field``: its other spelling, or one of its oneof."""
    group = field.containing_oneof.fields if field.containing_oneof else (field,)
    return next((given[each.json_name] for each in group if each.json_name in given), "")


def _of_field(
    owner: Descriptor, field: FieldDescriptor, value: Any, place: _Place
) -> Iterator[FieldViolation]:
    if not field.is_repeated:
        yield from _of_value(field, value, place, _Sent(owner, field, value))
    elif item := _item_of_map(field):
        if not isinstance(value, dict):
            yield place.must_be("an object", value)
            return
        for key, each in value.items():
            if not _is_text(key):
                yield place.broken(f"a key must be {_TEXT}; got {_shortened(repr(key))}")
            yield from _of_value(item, each, place.item(key), _Sent(owner, field, {"": each}))
    elif not isinstance(value, list):
        yield place.must_be("a list", value)
    else:
        for index, each in enumerate(value):
            yield from _of_value(field, each, place.item(index), _Sent(owner, field, [each]))


def _of_value(field: FieldDescriptor, value: Any, place: _Place, sent: _Sent) -> Iterator[FieldViolation]:
    kind = field.message_type
    if kind is not None and kind.full_name not in OWN_FORMS:
        yield from _of_message(kind, value, place)
    elif field.enum_type is not None:
        if not _is_of_enum(field.enum_type, value):
            known = ", ".join(field.enum_type.values_by_name)
            yield place.must_be(f"one of {known}, or its number", value)
    elif not _fits(field, value, sent):
        yield place.must_be(OWN_FORMS[kind.full_name] if kind else _RULES[field.cpp_type], value)


def _fits(field: FieldDescriptor, value: Any, sent: _Sent) -> bool:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return _is_text(value)  # most values are texts, and reading each by itself takes its time
    # A null is absent where it may be; where it comes this far, it is an item or a value.
    if value is None and not _takes_null(field):
        return False
    return sent.is_readable() and not _has_nul(value)


def _is_of_enum(kind: EnumDescriptor, value: Any) -> bool:
    if isinstance(value, str):
        return value in kind.values_by_name or (value.isdecimal() and _is_number_of(kind, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value == value // 1 and int(value) in kind.values_by_number


def _is_number_of(kind: EnumDescriptor, text: str) -> bool:
    return len(text) < 10 and int(text) in kind.values_by_number


def _item_of_map(field: FieldDescriptor) -> FieldDescriptor | None:
    """Return the field of a map's values; ``None``: ``field`` is a list."""
    kind = field.message_type
    return kind.fields_by_name["value"] if kind is not None and kind.GetOptions().map_entry else None


def _takes_null(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name == "google.protobuf.Value"


def _is_text(value: Any) -> bool:
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _has_nul(value: Any) -> bool:
    """Tell whether a text within ``value``, which is not nested deep, has NUL."""
    if isinstance(value, dict):
        return any("\0" in key or _has_nul(each) for key, each in value.items())
    if isinstance(value, list):
        return any(_has_nul(each) for each in value)
    return isinstance(value, str) and "\0" in value


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
