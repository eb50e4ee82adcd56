"""
The messages of Vertex AI, as protobuf classes in a pool of their own.

The descriptors lie beside this module: ``docs/tools/vertex_messages.py`` cuts them from those of
google-cloud-aiplatform, whose import takes seconds and a hundred megabytes. The pool is private, because a
process may have that library as well, and one pool takes a name once.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from google.protobuf import (
    any_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

#: The package of all messages that are Vertex AI's own.
PACKAGE = "google.cloud.aiplatform.v1"
OPERATION = "google.longrunning.Operation"
DESCRIPTORS = "messages.binpb"
_WELL_KNOWN = (
    any_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)


@cache
def message_pool() -> DescriptorPool:
    """Return the pool; it is filled when it is first asked for, which takes milliseconds."""
    pool = DescriptorPool()
    for module in _WELL_KNOWN:
        known = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(known)
        pool.Add(known)
    for file in FileDescriptorSet.FromString(files(__package__).joinpath(DESCRIPTORS).read_bytes()).file:
        pool.Add(file)
    return pool


@cache
def message_class(name: str) -> type[Message]:
    """
    Return the class of a message.

    :param name: of Vertex AI's own without their package (``CustomJob``), of others in full.
    """
    return GetMessageClass(descriptor_of(name))


@cache
def descriptor_of(name: str) -> Descriptor:
    """Return what a message consists of. :param name: as ``message_class`` takes it."""
    return message_pool().FindMessageTypeByName(_full_name(name))


def _full_name(name: str) -> str:
    return name if name.startswith("google.") else f"{PACKAGE}.{name}"
