"""The store as an ASGI application."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sqlite3
import time
from collections.abc import Collection
from contextlib import suppress
from http import HTTPStatus
from ipaddress import IPv4Interface, IPv6Interface, ip_address

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from object_store.api.access import ContainerAccess
from object_store.api.call import Call
from object_store.api.guards import check_headers
from object_store.api.metrics import Metrics
from object_store.api.policies import BucketPolicies
from object_store.api.routes import OF_HANDLER, Route, find_route
from object_store.errors import Forbidden, Invalid, NoRoom, StoreError
from object_store.store import Store
from object_store.uploads import Uploads

logger = logging.getLogger(__name__)

#: Requests under way; more are told to come again.
MOST_REQUESTS = 256
#: Of the system: the disk, or what this user may have of it, is full.
_FULL = (errno.ENOSPC, errno.EDQUOT)
#: What a POST may stand for, of a client whose proxy knows few methods.
_OVERRIDES = ("DELETE", "GET", "PATCH", "PUT")


class App:
    """
    Answers the JSON API, and the part of the XML API that its clients use.

    :param hosts: names under which clients reach the store, beside ``localhost`` and addresses.
    :param access: decides what containers may do.
    :param containers_host: the address of this machine that containers reach; who comes by it is one.
    :param clients: one more of its addresses, with the network of users: who comes there from elsewhere is a
        container, too.
    """

    def __init__(
        self,
        store: Store,
        policies: BucketPolicies,
        metrics: Metrics,
        *,
        hosts: Collection[str] = (),
        access: ContainerAccess | None = None,
        containers_host: str | None = None,
        clients: IPv4Interface | IPv6Interface | None = None,
        most_requests: int = MOST_REQUESTS,
    ) -> None:
        self._store = store
        self._uploads = Uploads(store)
        self._policies = policies
        self._metrics = metrics
        self._hosts = frozenset(host.lower() for host in hosts)
        self._access = access or ContainerAccess(None)
        self._containers_host = containers_host
        self._clients = clients
        self._most_requests = most_requests
        self._under_way = 0
        #: More threads that hash would not be faster, and would hold up short requests.
        self._writing = asyncio.Semaphore(os.cpu_count() or 1)

    @property
    def uploads(self) -> Uploads:
        """The uploads of several requests."""
        return self._uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        headers = Headers(scope=scope)
        # A client that waits for "100 Continue" sends no body before it is asked to.
        watch = _Watch(receive, send, expects_body="expect" not in headers)
        request = Request(scope, watch.receive, watch.send)
        self._under_way += 1
        self._metrics.in_flight.set(self._under_way)
        begun, name = time.perf_counter(), "refused"
        try:
            name, answer = await self._answer(request)
            if headers.get("connection", "").lower() == "close" and "connection" not in answer.headers:
                await watch.discard_body()
            await answer(scope, watch.receive, watch.send)
        except ClientDisconnect:
            watch.code = 499
        finally:
            self._under_way -= 1
            self._metrics.in_flight.set(self._under_way)
            self._metrics.requests.labels(name, str(watch.code)).inc()
            self._metrics.seconds.labels(name).observe(time.perf_counter() - begun)
            self._metrics.received.inc(watch.received)
            self._metrics.sent.inc(watch.sent)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Tell the server that nothing has to be waited for; close what was opened when it ends."""
        while (await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        await self._policies.close()
        await self._access.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, request: Request) -> tuple[str, Response]:
        """Return the API's name of what is asked, and the answer."""
        name = "refused"
        try:
            if self._under_way > self._most_requests:
                return name, _refusal(_TOO_MANY)
            check_headers(request.headers, self._hosts)
            path = request.scope["raw_path"].decode("ascii")
            if request.method in ("GET", "HEAD") and path in ("/health", "/metrics"):
                return path, await run_in_threadpool(self._of_itself, path)
            _take_override(request)
            route, parts = find_route(request.method, path)
            name = route.name
            return name, await self._route(request, route, parts)
        except StoreError as error:
            return name, _refusal(error)
        except UnicodeError:
            return name, _refusal(Invalid("the path must be percent-encoded UTF-8"))
        except (sqlite3.Error, OSError) as error:
            logger.exception("%s %s failed", request.method, request.url.path)
            return name, _refusal(self._failure(error))
        except ClientDisconnect:
            raise
        except Exception:
            logger.exception("%s %s failed", request.method, request.url.path)
            message = "the object store made a mistake; its log says where"
            return name, _refusal(StoreError(HTTPStatus.INTERNAL_SERVER_ERROR, "internalError", message))

    async def _route(self, request: Request, route: Route, parts: dict[str, str]) -> Response:
        """Return the answer of a route to a caller who may ask for it."""
        is_container = self._is_container(request)
        call = Call(
            request, self._store, self._uploads, parts, self._writing, self._access if is_container else None
        )
        await _take_query(call)
        call.check_query()
        if is_container:
            await _check_container(call, route)
        return await (route.handler or self._policies.answer)(call)

    def _is_container(self, request: Request) -> bool:
        """Return whether the caller may do only what a container may."""
        host = (request.scope.get("server") or ("",))[0]
        if self._clients is None or host != str(self._clients.ip):
            return bool(host == self._containers_host)
        return request.client is None or ip_address(request.client.host) not in self._clients.network

    def _of_itself(self, path: str) -> Response:
        if path == "/metrics":
            return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")
        status, body = self._metrics.health()
        return JSONResponse(body, status)

    def _failure(self, error: sqlite3.Error | OSError) -> StoreError:
        try:
            self._store.contents.require_room()
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL or (
                isinstance(error, OSError) and error.errno in _FULL
            ):
                return NoRoom(self._store.contents.free_bytes(), 0)
        except NoRoom as full:
            return full
        except OSError:
            logger.exception("the folder of the store does not answer")
        return StoreError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "backendError",
            f"the object store's disk does not answer: {error}",
        )


#: What is read and passed over of a body that an answer does not need.
_DISCARD_BYTES = 16 << 20
_DISCARD_SECONDS = 5.0


class _Watch:
    """Counts the bytes of a request and of its answer."""

    def __init__(self, receive: Receive, send: Send, *, expects_body: bool) -> None:
        self._receive = receive
        self._send = send
        self._more_comes = expects_body
        self.received = 0
        self.sent = 0
        self.code = 0

    async def receive(self) -> Message:
        message = await self._receive()
        self.received += len(message.get("body", b""))
        self._more_comes = message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        self.code = message.get("status", self.code)
        self.sent += len(message.get("body", b""))
        try:
            await self._send(message)
        except RuntimeError as error:
            # uvloop's own, from when it notices that the client has gone until uvicorn does.
            if "the handler is closed" in str(error):
                raise ClientDisconnect from None
            raise

    async def discard_body(self) -> None:
        """
        Read what is left of the body, within bounds.

        It is for answers after which the connection ends. A connection that is closed with unread bytes is
        reset, and the client may lose the answer (RFC 9112, section 9.6). On a connection that goes on the
        server passes over the rest by itself.
        """
        most = self.received + _DISCARD_BYTES
        with suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_SECONDS):
                while self._more_comes and self.received < most:
                    await self.receive()


_ENDS_CONNECTION = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INSUFFICIENT_STORAGE,
    }
)
_TOO_MANY = StoreError(
    HTTPStatus.TOO_MANY_REQUESTS,
    "rateLimitExceeded",
    "too many requests are under way; ask again in a second",
)


def _take_override(request: Request) -> None:
    override = request.headers.get("x-http-method-override")
    if request.method == "POST" and override in _OVERRIDES:
        request.scope["method"] = override


async def _check_container(call: Call, route: Route) -> None:
    if route.permission is None:
        raise Forbidden("containers cannot change buckets, or read or change their policies")
    if route.permission != OF_HANDLER:
        names = (call.part(name) for name in ("bucket", "object") if name in call.parts)
        await call.require(route.permission, *names)


async def _take_query(call: Call) -> None:
    """Take a query that is too long for a URL from the body (google-api-python-client)."""
    # Of another method the handler reads the body.
    if call.request.method == "GET" and call.request.headers.get("x-http-method-override") == "GET":
        scope = call.request.scope
        scope["query_string"] = await call.short_body() or scope["query_string"]


def _refusal(error: StoreError) -> Response:
    if error.status == HTTPStatus.NOT_MODIFIED:
        return Response(status_code=error.status)
    # Of a long body the rest is not waited for.
    ending = {"connection": "close"} if error.status in _ENDS_CONNECTION else {}
    headers = {**error.headers, **ending}
    if error.status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        headers["retry-after"] = "1"
    return JSONResponse(error.body(), error.status, headers)
