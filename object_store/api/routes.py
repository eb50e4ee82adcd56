"""Which handler answers which method and path, and what is refused by name."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.responses import Response

from object_store.api import buckets, objects, uploads, xml
from object_store.api.call import Call
from object_store.errors import NotFound, NotServed

Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """
    One method of the API.

    :param name: as the API calls it; also in the metrics.
    :param path: matched with the path as it came, percent-encoded, so that ``%2F`` in a name stays in it.
    :param is_policy: of IAM: the training service answers.
    :param for_people: containers may not.
    """

    name: str
    methods: str
    path: re.Pattern[str]
    handler: Handler | None = None
    is_policy: bool = False
    for_people: bool = False


_BUCKET = r"/storage/v1/b/(?P<bucket>[^/]+)"
_OBJECT = rf"{_BUCKET}/o/(?P<object>[^/]+)"
_SOURCE = r"/storage/v1/b/(?P<source_bucket>[^/]+)/o/(?P<source_object>[^/]+)"
_TARGET = r"b/(?P<bucket>[^/]+)/o/(?P<object>[^/]+)"
_UPLOAD = r"(?:/resumable)?/upload/storage/v1/b/(?P<bucket>[^/]+)/o"
_ANY = "GET POST PUT PATCH DELETE"
_BY_PATH = r"/(?!(?:storage|upload|download|resumable|batch|health|metrics)/)(?P<bucket>[^/]+)/(?P<object>.+)"


def _route(
    name: str,
    methods: str,
    path: str,
    handler: Handler | None = None,
    *,
    is_policy: bool = False,
    for_people: bool = False,
) -> Route:
    return Route(name, methods, re.compile(path), handler, is_policy, for_people)


#: The first one that fits answers. Without a handler: not served.
ROUTES = (
    _route("buckets.list", "GET", r"/storage/v1/b/?", buckets.list_all),
    _route("buckets.insert", "POST", r"/storage/v1/b/?", buckets.insert, for_people=True),
    _route("buckets.get", "GET", _BUCKET, buckets.get),
    _route("buckets.patch", "PATCH PUT", _BUCKET, buckets.patch, for_people=True),
    _route("buckets.delete", "DELETE", _BUCKET, buckets.delete, for_people=True),
    _route("buckets.getStorageLayout", "GET", rf"{_BUCKET}/storageLayout", buckets.storage_layout),
    _route("buckets.iam", "GET PUT", rf"{_BUCKET}/iam(?:/testPermissions)?", is_policy=True, for_people=True),
    _route("managedFolders.list", "GET", rf"{_BUCKET}/managedFolders", buckets.no_managed_folders),
    _route("objects.list", "GET", rf"{_BUCKET}/o/?", objects.list_all),
    _route("objects.get", "GET HEAD", rf"(?:/download)?{_OBJECT}", objects.get),
    _route("objects.patch", "PATCH PUT", _OBJECT, objects.patch),
    _route("objects.delete", "DELETE", _OBJECT, objects.delete),
    _route("objects.copy", "POST", rf"{_SOURCE}/copyTo/{_TARGET}", objects.copy),
    _route("objects.rewrite", "POST", rf"{_SOURCE}/rewriteTo/{_TARGET}", objects.rewrite),
    _route(
        "objects.move",
        "POST",
        r"/storage/v1/b/(?P<bucket>[^/]+)/o/(?P<source_object>[^/]+)/moveTo/o/(?P<object>[^/]+)",
        objects.move,
    ),
    _route("objects.compose", "POST", rf"{_OBJECT}/compose", objects.compose),
    _route("objects.insert", "POST", _UPLOAD, uploads.insert),
    _route("objects.insert", "PUT", _UPLOAD, uploads.resume),
    _route("objects.insert", "DELETE", _UPLOAD, uploads.cancel),
    _route("batch requests", "POST", r"/batch(?:/.*)?"),
    _route("access control lists", _ANY, rf"{_BUCKET}(?:/o/[^/]+)?/(?:acl|defaultObjectAcl)(?:/.*)?"),
    _route("IAM policies of objects", _ANY, rf"{_OBJECT}/iam(?:/.*)?"),
    _route("soft delete", "POST", rf"{_BUCKET}(?:/o(?:/[^/]+)?)?/(?:restore|bulkRestore)"),
    _route("notifications", _ANY, rf"{_BUCKET}/(?:notificationConfigs(?:/.*)?|o/watch)"),
    _route("retention policies", "POST", rf"{_BUCKET}/lockRetentionPolicy"),
    _route("folders of a namespace", _ANY, rf"{_BUCKET}/(?:folders|managedFolders|anywhereCaches)(?:/.*)?"),
    _route("HMAC keys and service accounts", _ANY, r"/storage/v1/projects/.*"),
    _route("objects.get by path", "GET HEAD", _BY_PATH, xml.get),
    _route("objects.insert by path", "PUT", _BY_PATH, xml.put),
    _route("uploads in parts", "POST", _BY_PATH, xml.post),
    _route("objects.delete by path", "DELETE", _BY_PATH, xml.delete),
)


def find_route(method: str, path: str) -> tuple[Route, dict[str, str]]:
    """
    Return the route of a request, and the parts of its path.

    :raises NotServed: Cloud Storage has it, this store does not.
    :raises NotFound: there is no such method or path.
    """
    for route in ROUTES:
        if method in route.methods.split() and (found := route.path.fullmatch(path)):
            if route.handler is None and not route.is_policy:
                raise NotServed(route.name)
            parts = {name: value for name, value in found.groupdict().items() if value is not None}
            if "source_object" in parts:
                parts.setdefault("source_bucket", parts["bucket"])
            return route, parts
    raise NotFound(
        f"{method} {path[:120]} is no method of Cloud Storage's API; the JSON API begins with /storage/v1/b"
    )
