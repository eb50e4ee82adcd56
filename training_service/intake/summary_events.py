"""
TensorFlow's event files: records, events in them, and the scalars in those. Pure.

A file is a sequence of records: length (8 bytes, little endian), its masked crc32c (4), data, the data's
masked crc32c (4) [code: tensorflow/core/lib/io/record_writer.h, tensorflow/core/lib/hash/crc32c.h]. The data
is an ``Event``. Only the fields that are needed are described here; protobuf skips the others. Numbers of the
fields: tensorflow/core/util/event.proto, core/framework/summary.proto, tensor.proto, tensor_shape.proto and
types.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import google_crc32c
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from training_api.job.tuning.measurement import Report

#: A graph, which is in these files too, is some megabytes.
MAX_RECORD_BYTES = 64 << 20
_HEADER, _FOOTER = 12, 4
_MASK_DELTA = 0xA282EAD8
_FLOAT, _DOUBLE = 1, 2  # types.proto
_FORMATS = {_FLOAT: "<f", _DOUBLE: "<d"}
_US = 1_000_000


class _Damaged(ValueError):
    """The file is not one of events, or is damaged; what follows in it cannot be read."""


class EventReader:
    """Reads one file in pieces, as it grows."""

    def __init__(self) -> None:
        self._rest = b""
        #: Why nothing more can be read; empty: it can.
        self.damage = ""
        #: How many bytes have been fed, but for those that were dropped.
        self.size = 0

    def feed(self, piece: bytes) -> list[Report]:
        """Return the scalars in the records that ``piece`` completes, in order, up to a ``damage``."""
        self.size += len(piece)
        self._rest += piece
        reports: list[Report] = []
        start = 0
        try:
            while not self.damage and (end := self._end_of_record(start)) is not None:
                data = self._rest[start + _HEADER : end - _FOOTER]
                _check(data, self._rest[end - _FOOTER : end])
                reports += _scalars(data)
                start = end
        except _Damaged as error:
            self.damage = str(error)
        self._rest = self._rest[start:]
        return reports

    def drop_unfinished(self) -> None:
        """Forget the record that has begun; ``size`` is where it begins, and where to read on."""
        self.size -= len(self._rest)
        self._rest = b""

    def _end_of_record(self, start: int) -> int | None:
        header = self._rest[start : start + _HEADER]
        if len(header) < _HEADER:
            return None
        _check(header[:8], header[8:])
        length = int.from_bytes(header[:8], "little")
        if length > MAX_RECORD_BYTES:
            raise _Damaged(f"a record must have at most {MAX_RECORD_BYTES} bytes, got {length}")
        end = start + _HEADER + length + _FOOTER
        return end if end <= len(self._rest) else None


def masked_crc(data: bytes) -> int:
    """Return the checksum that a record carries of ``data``."""
    crc: int = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def _check(data: bytes, crc: bytes) -> None:
    if masked_crc(data) != int.from_bytes(crc, "little"):
        raise _Damaged("a record has another checksum than it should have")


def _scalars(data: bytes) -> Iterator[Report]:
    event = _Event()
    try:
        event.ParseFromString(data)
    except DecodeError as error:
        raise _Damaged(f"a record is not an event: {error}") from error
    for value in event.summary.value:
        if (number := _number(value)) is None:
            continue
        try:
            yield Report(
                tag=value.tag, step=event.step, value=number, reported_us=round(event.wall_time * _US)
            )
        except (ValueError, OverflowError):
            continue  # a tag, or a time, that nobody could ask for


def _number(value: Any) -> float | None:
    """
    Return a scalar.

    TensorFlow 1 writes ``simple_value``, TensorFlow 2 a tensor of no dimensions.
    """
    if value.HasField("simple_value"):
        return float(value.simple_value)
    tensor = value.tensor
    if tensor.dtype not in _FORMATS or tensor.tensor_shape.dim:
        return None
    if tensor.tensor_content:
        layout = _FORMATS[tensor.dtype]
        fits = len(tensor.tensor_content) == struct.calcsize(layout)
        return float(struct.unpack(layout, tensor.tensor_content)[0]) if fits else None
    values = tensor.float_val if tensor.dtype == _FLOAT else tensor.double_val
    return float(values[0]) if len(values) == 1 else None


#: Message -> field -> (number, type, repeated). A type in lower case is protobuf's own.
_MESSAGES: dict[str, dict[str, tuple[int, str, bool]]] = {
    "Dim": {"size": (1, "int64", False)},
    "Shape": {"dim": (2, "Dim", True)},
    "Tensor": {
        "dtype": (1, "int32", False),
        "tensor_shape": (2, "Shape", False),
        "tensor_content": (4, "bytes", False),
        "float_val": (5, "float", True),
        "double_val": (6, "double", True),
    },
    "Value": {
        "tag": (1, "string", False),
        "simple_value": (2, "float", False),
        "tensor": (8, "Tensor", False),
    },
    "Summary": {"value": (1, "Value", True)},
    "Event": {
        "wall_time": (1, "double", False),
        "step": (2, "int64", False),
        "summary": (5, "Summary", False),
    },
}


def _event_class() -> Any:
    kind = descriptor_pb2.FieldDescriptorProto
    # proto2: ``simple_value`` is part of a oneof, so that a 0 which was written can be told from none.
    file = descriptor_pb2.FileDescriptorProto(name="events.proto", package="events", syntax="proto2")
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for name, (number, type_name, is_repeated) in fields.items():
            field = message.field.add(
                name=name,
                number=number,
                label=kind.LABEL_REPEATED if is_repeated else kind.LABEL_OPTIONAL,
            )
            if type_name[0].isupper():
                field.type, field.type_name = kind.TYPE_MESSAGE, f".events.{type_name}"
            else:
                field.type = kind.Type.Value(f"TYPE_{type_name.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("events.Event"))


_Event = _event_class()
