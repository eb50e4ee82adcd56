"""Which handler answers which method and path, and what is refused by name."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.responses import Response

from object_store.api import access, buckets, objects, uploads, xml
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
    :param permission: what a container needs for what the path names; ``None``: containers may not.
    """

    name: str
    methods: str
    path: re.Pattern[str]
    handler: Handler | None = None
    is_policy: bool = False
    permission: str | None = None


#: Its handler asks: the body or the upload's key says what it is about.
OF_HANDLER = "of the handler"
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
    permission: str | None = None,
) -> Route:
    return Route(name, methods, re.compile(path), handler, is_policy, permission)


#: The first one that fits answers. Without a handler: not served.
ROUTES = (
    _route("buckets.list", "GET", r"/storage/v1/b/?", buckets.list_all, permission=access.LIST_BUCKETS),
    _route("buckets.insert", "POST", r"/storage/v1/b/?", buckets.insert),
    _route("buckets.get", "GET", _BUCKET, buckets.get, permission=access.GET_BUCKET),
    _route("buckets.patch", "PATCH PUT", _BUCKET, buckets.patch),
    _route("buckets.delete", "DELETE", _BUCKET, buckets.delete),
    # Not of Cloud Storage: the training service asks what a job has written. No container may.
    _route("buckets.use", "GET", rf"{_BUCKET}/use", buckets.use),
    _route(
        "buckets.getStorageLayout",
        "GET",
        rf"{_BUCKET}/storageLayout",
        buckets.storage_layout,
        permission=access.GET_BUCKET,
    ),
    _route("buckets.iam", "GET PUT", rf"{_BUCKET}/iam(?:/testPermissions)?", is_policy=True),
    _route(
        "managedFolders.list",
        "GET",
        rf"{_BUCKET}/managedFolders",
        buckets.no_managed_folders,
        permission=access.LIST,
    ),
    _route("objects.list", "GET", rf"{_BUCKET}/o/?", objects.list_all, permission=access.LIST),
    _route("objects.get", "GET HEAD", rf"(?:/download)?{_OBJECT}", objects.get, permission=access.GET),
    _route("objects.patch", "PATCH PUT", _OBJECT, objects.patch, permission=access.UPDATE),
    _route("objects.delete", "DELETE", _OBJECT, objects.delete, permission=access.DELETE),
    _route("objects.copy", "POST", rf"{_SOURCE}/copyTo/{_TARGET}", objects.copy, permission=OF_HANDLER),
    _route(
        "objects.rewrite", "POST", rf"{_SOURCE}/rewriteTo/{_TARGET}", objects.rewrite, permission=OF_HANDLER
    ),
    _route(
        "objects.move",
        "POST",
        r"/storage/v1/b/(?P<bucket>[^/]+)/o/(?P<source_object>[^/]+)/moveTo/o/(?P<object>[^/]+)",
        objects.move,
        permission=OF_HANDLER,
    ),
    _route("objects.compose", "POST", rf"{_OBJECT}/compose", objects.compose, permission=OF_HANDLER),
    _route("objects.insert", "POST", _UPLOAD, uploads.insert, permission=OF_HANDLER),
    _route("objects.insert", "PUT", _UPLOAD, uploads.resume, permission=OF_HANDLER),
    _route("objects.insert", "DELETE", _UPLOAD, uploads.cancel, permission=OF_HANDLER),
    _route("batch requests", "POST", r"/batch(?:/.*)?"),
    _route("access control lists", _ANY, rf"{_BUCKET}(?:/o/[^/]+)?/(?:acl|defaultObjectAcl)(?:/.*)?"),
    _route("IAM policies of objects", _ANY, rf"{_OBJECT}/iam(?:/.*)?"),
    _route("soft delete", "POST", rf"{_BUCKET}(?:/o(?:/[^/]+)?)?/(?:restore|bulkRestore)"),
    _route("notifications", _ANY, rf"{_BUCKET}/(?:notificationConfigs(?:/.*)?|o/watch)"),
    _route("retention policies", "POST", rf"{_BUCKET}/lockRetentionPolicy"),
    _route("folders of a namespace", _ANY, rf"{_BUCKET}/(?:folders|managedFolders|anywhereCaches)(?:/.*)?"),
    _route("HMAC keys and service accounts", _ANY, r"/storage/v1/projects/.*"),
    _route("objects.get by path", "GET HEAD", _BY_PATH, xml.get, permission=access.GET),
    _route("objects.insert by path", "PUT", _BY_PATH, xml.put, permission=OF_HANDLER),
    _route("uploads in parts", "POST", _BY_PATH, xml.post, permission=OF_HANDLER),
    _route("objects.delete by path", "DELETE", _BY_PATH, xml.delete, permission=access.DELETE),
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
