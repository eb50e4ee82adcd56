"""
Writes ``messages.binpb``: the messages of Vertex AI that training needs.

They are cut from the descriptors of the installed ``google-cloud-aiplatform``, which the service itself never
imports. ``make docs`` runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

TARGET = Path(__file__).parents[2] / "training_service" / "api" / "vertex_v1" / "messages.binpb"
#: Resources whose five methods are served.
RESOURCES = ("CustomJob", "HyperparameterTuningJob", "TrainingPipeline")
#: What clients ask of models, and what an upload answers.
MODELS = (
    *("GetModelRequest", "ListModelsRequest", "ListModelsResponse", "DeleteModelRequest"),
    *("UploadModelRequest", "UploadModelResponse", "UploadModelOperationMetadata"),
)
#: Messages of operations and locations that clients send, and get.
OPERATIONS = (
    "Operation",
    "GetOperationRequest",
    "ListOperationsRequest",
    "ListOperationsResponse",
    "WaitOperationRequest",
    "CancelOperationRequest",
    "DeleteOperationRequest",
)
LOCATIONS = ("Location", "GetLocationRequest", "ListLocationsRequest", "ListLocationsResponse")
#: In every installation of protobuf; a pool gets them from there.
WELL_KNOWN = "google/protobuf/"


def message_set() -> bytes:
    """Return the serialized ``FileDescriptorSet``; the same installation gives the same bytes."""
    wanted: dict[str, Any] = {}
    for root in _roots():
        _gather(root, wanted)
    files: dict[str, Any] = {}
    for descriptor in wanted.values():
        files[descriptor.file.name] = descriptor.file
    cut = {name: _cut(file, set(wanted)) for name, file in files.items()}
    ordered: dict[str, FileDescriptorProto] = {}
    for name in sorted(cut):
        _after_its_dependencies(name, cut, ordered)
    return FileDescriptorSet(file=ordered.values()).SerializeToString(deterministic=True)


def _roots() -> Iterator[Any]:
    # Imported late: it takes seconds, and whatever looks at this module's names need not wait for it.
    from google.cloud.aiplatform_v1 import types
    from google.cloud.location import locations_pb2
    from google.longrunning import operations_pb2
    from google.rpc import error_details_pb2

    for resource in RESOURCES:
        for name in (
            resource,
            f"Create{resource}Request",
            f"Get{resource}Request",
            f"List{resource}sRequest",
            f"List{resource}sResponse",
            f"Cancel{resource}Request",
            f"Delete{resource}Request",
        ):
            yield getattr(types, name).pb().DESCRIPTOR
    yield from (getattr(types, name).pb().DESCRIPTOR for name in MODELS)
    yield types.DeleteOperationMetadata.pb().DESCRIPTOR
    yield error_details_pb2.BadRequest.DESCRIPTOR
    yield from (getattr(operations_pb2, name).DESCRIPTOR for name in OPERATIONS)
    yield from (getattr(locations_pb2, name).DESCRIPTOR for name in LOCATIONS)


def _gather(descriptor: Any, wanted: dict[str, Any]) -> None:
    """Add ``descriptor`` to ``wanted``, and all that its fields need."""
    if descriptor.full_name in wanted or descriptor.file.name.startswith(WELL_KNOWN):
        return
    wanted[descriptor.full_name] = descriptor
    # A nested message lies within its parent, so that has to be there, too.
    if descriptor.containing_type:
        _gather(descriptor.containing_type, wanted)
    for field in getattr(descriptor, "fields", ()):
        if field.message_type:
            _gather(field.message_type, wanted)
        if field.enum_type:
            _gather(field.enum_type, wanted)


def _cut(file: Any, wanted: set[str]) -> FileDescriptorProto:
    """Return ``file`` with the wanted messages only, without options and services."""
    whole = FileDescriptorProto()
    file.CopyToProto(whole)
    cut = FileDescriptorProto(name=whole.name, package=whole.package, syntax=whole.syntax)
    for message in whole.message_type:
        if kept := _kept(message, whole.package, wanted):
            cut.message_type.append(kept)
    cut.enum_type.extend(each for each in whole.enum_type if f"{whole.package}.{each.name}" in wanted)
    for enum in cut.enum_type:
        _without_options(enum)
    used = {name for message in cut.message_type for name in _types_of(message)}
    # Sorted: the library makes its files while it is imported, in an order of chance.
    cut.dependency.extend(sorted(name for name in whole.dependency if _defines(file, name, used)))
    return cut


def _kept(message: DescriptorProto, scope: str, wanted: set[str]) -> DescriptorProto | None:
    name = f"{scope}.{message.name}"
    if name not in wanted:
        return None
    kept = DescriptorProto()
    kept.CopyFrom(message)
    nested = [found for each in message.nested_type if (found := _kept(each, name, wanted))]
    enums = [each for each in message.enum_type if f"{name}.{each.name}" in wanted]
    del kept.nested_type[:], kept.enum_type[:], kept.reserved_range[:], kept.reserved_name[:]
    kept.nested_type.extend(nested)
    kept.enum_type.extend(enums)
    is_map = message.options.map_entry
    kept.ClearField("options")
    if is_map:
        kept.options.map_entry = True
    for field in kept.field:
        field.ClearField("options")
        field.ClearField("json_name")  # a pool makes the usual one
    for enum in kept.enum_type:
        _without_options(enum)
    return kept


def _without_options(enum: Any) -> None:
    has_alias = enum.options.allow_alias
    enum.ClearField("options")
    if has_alias:
        enum.options.allow_alias = True
    for value in enum.value:
        value.ClearField("options")


def _types_of(message: DescriptorProto) -> Iterator[str]:
    yield from (field.type_name.lstrip(".") for field in message.field if field.type_name)
    for nested in message.nested_type:
        yield from _types_of(nested)


def _defines(file: Any, dependency: str, used: set[str]) -> bool:
    """Tell whether ``file`` uses something of the file ``dependency``."""
    (found,) = [each for each in file.dependencies if each.name == dependency]
    names = [each.full_name for each in found.message_types_by_name.values()]
    names += [each.full_name for each in found.enum_types_by_name.values()]
    return any(name == top or name.startswith(f"{top}.") for name in used for top in names)


def _after_its_dependencies(
    name: str, cut: dict[str, FileDescriptorProto], ordered: dict[str, FileDescriptorProto]
) -> None:
    if name in ordered or name not in cut:
        return
    for dependency in cut[name].dependency:
        _after_its_dependencies(dependency, cut, ordered)
    ordered[name] = cut[name]


if __name__ == "__main__":
    if (made := message_set()) != (TARGET.read_bytes() if TARGET.exists() else b""):
        TARGET.write_bytes(made)
        print(f"wrote {TARGET.name}, {len(made)} bytes", file=sys.stderr)
