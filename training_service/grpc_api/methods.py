"""
The methods that are served over gRPC, and the request of REST that does the same. Pure.

Each row is what Google's own ``.proto`` says of a method in ``google.api.http``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic.alias_generators import to_snake

from training_service.api.vertex_v1.messages import OPERATION, PACKAGE
from training_service.api.vertex_v1.paths import PREFIX
from training_service.api.vertex_v1.unserved import WAYS_OUT, message_of

_EMPTY = "google.protobuf.Empty"
_LOCATION = "projects/*/locations/*"
_VERB = re.compile(r"[A-Z][a-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """
    One method.

    :param request: name of the message that is sent, as ``message_class`` takes it.
    :param response: of the one that is answered.
    :param verb: of HTTP.
    :param path: with one field of the request in braces, and the form of its value:
        ``/v1/{parent=projects/*}/jobs``.
    :param body: the field of the request that is the body; ``*``: all that are not in the path; empty: none,
        and these are the query.
    """

    request: str
    response: str
    verb: str
    path: str
    body: str = ""


def _resource(kind: str, *verbs: str) -> dict[str, Method]:
    """Return the usual methods of a resource, such as ``CustomJob``; ``verbs``: these alone."""
    collection = f"{kind[0].lower()}{kind[1:]}s"
    parent, name = f"/v1/{{parent={_LOCATION}}}/{collection}", f"/v1/{{name={_LOCATION}/{collection}/*}}"
    create, get, listing = f"Create{kind}", f"Get{kind}", f"List{kind}s"
    cancel, delete = f"Cancel{kind}", f"Delete{kind}"
    found = {
        create: Method(
            request=f"{create}Request", response=kind, verb="POST", path=parent, body=to_snake(kind)
        ),
        get: Method(request=f"{get}Request", response=kind, verb="GET", path=name),
        listing: Method(request=f"{listing}Request", response=f"{listing}Response", verb="GET", path=parent),
        delete: Method(request=f"{delete}Request", response=OPERATION, verb="DELETE", path=name),
        cancel: Method(
            request=f"{cancel}Request", response=_EMPTY, verb="POST", path=f"{name}:cancel", body="*"
        ),
    }
    return {call: method for call, method in found.items() if not verbs or call.startswith(verbs)}


_LONG, _PLACES = "google.longrunning", "google.cloud.location"
_OPERATION = f"/v1/{{name={_LOCATION}/operations/*}}"
#: Full name of a service -> its methods. A resource that REST serves is one row.
SERVICES: Mapping[str, Mapping[str, Method]] = {
    f"{PACKAGE}.JobService": {
        **_resource("CustomJob"),
        **_resource("HyperparameterTuningJob"),
    },
    f"{PACKAGE}.PipelineService": _resource("TrainingPipeline"),
    f"{PACKAGE}.ModelService": {
        **_resource("Model", "Get", "List", "Delete"),
        "UploadModel": Method(
            request="UploadModelRequest",
            response=OPERATION,
            verb="POST",
            path=f"/v1/{{parent={_LOCATION}}}/models:upload",
            body="*",
        ),
    },
    f"{_LONG}.Operations": {
        "GetOperation": Method(
            request=f"{_LONG}.GetOperationRequest", response=OPERATION, verb="GET", path=_OPERATION
        ),
        "ListOperations": Method(
            request=f"{_LONG}.ListOperationsRequest",
            response=f"{_LONG}.ListOperationsResponse",
            verb="GET",
            path=f"/v1/{{name={_LOCATION}}}/operations",
        ),
        "WaitOperation": Method(
            request=f"{_LONG}.WaitOperationRequest",
            response=OPERATION,
            verb="POST",
            path=f"{_OPERATION}:wait",
            body="*",
        ),
    },
    f"{_PLACES}.Locations": {
        "ListLocations": Method(
            request=f"{_PLACES}.ListLocationsRequest",
            response=f"{_PLACES}.ListLocationsResponse",
            verb="GET",
            path="/v1/{name=projects/*}/locations",
        ),
        "GetLocation": Method(
            request=f"{_PLACES}.GetLocationRequest",
            response=f"{_PLACES}.Location",
            verb="GET",
            path=f"/v1/{{name={_LOCATION}}}",
        ),
    },
}


def method_of(call: str) -> Method | None:
    """Return the method that is called as ``/SERVICE/METHOD``; ``None``: it is not served."""
    service, _, name = call.strip("/").partition("/")
    return SERVICES.get(service, {}).get(name)


def path_of_unserved(call: str) -> str:
    """Return where what is not served is refused: below it REST has no route."""
    return f"{PREFIX}/grpc/{call.strip('/')}"


def refusal_of(call: str) -> str:
    """Return what is said of a method that is not served, in the words of REST."""
    name = call.rpartition("/")[2]
    kind = _VERB.sub("", name, count=1)
    collection = f"{kind[:1].lower()}{kind[1:]}".removesuffix("s") + "s"
    return message_of(collection if collection in WAYS_OUT else call.strip("/"))
