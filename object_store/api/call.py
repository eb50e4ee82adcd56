"""One request: what it asks for, and how its body is read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, ParamSpec, TypeVar
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from object_store.api.access import CREATE, DELETE, GET, ContainerAccess, Question
from object_store.conditions import Conditions, whole_number
from object_store.data.contents import CHUNK_BYTES, GrowingFile
from object_store.data.records import Bucket, Object
from object_store.errors import Forbidden, Invalid, NotFound, StoreError
from object_store.names import check_object_name, check_project
from object_store.partial import parse_fields, select
from object_store.resources import bucket_resource, object_resource
from object_store.store import Store, Target
from object_store.uploads import Uploads

JSON_BYTES = 1 << 20
#: How long a client may say nothing in the middle of a body.
STALL_SECONDS = 60.0

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Call:
    """
    A request with the parts of its path, percent-encoded as they came.

    :param parts: ``bucket``, ``object`` and the like by name.
    :param writing: held while a piece of a body is hashed and written.
    :param access: decides what the caller may do; ``None``: it is no container, and may do all.
    """

    request: Request
    store: Store
    uploads: Uploads
    parts: dict[str, str]
    writing: asyncio.Semaphore
    access: ContainerAccess | None = None

    @property
    def query(self) -> dict[str, str]:
        """The parameters; of several with one name, the last."""
        return dict(self.request.query_params)

    @property
    def project(self) -> str:
        """The project that the request names; empty: none. :raises Invalid: it cannot be one."""
        return check_project(self.query.get("project", ""))

    @property
    def base_url(self) -> str:
        """The store's URL as this reader calls it."""
        return f"{self.request.url.scheme}://{self.request.headers['host']}"

    def check_query(self) -> None:
        """
        Return if the answer can be given as it is asked for; before anything is changed.

        :raises Invalid: ``fields`` is no selection.
        """
        if fields := self.query.get("fields"):
            parse_fields(fields)

    def part(self, name: str) -> str:
        """
        Return a part of the path, decoded.

        :raises Invalid: it is not UTF-8.
        """
        try:
            return unquote(self.parts[name], errors="strict")
        except UnicodeDecodeError:
            raise Invalid("the path must be percent-encoded UTF-8") from None

    def target(self, prefix: str = "", *, is_source: bool = False) -> Target:
        """
        Return the object that the path names.

        :param prefix: of the parts' names: ``source_`` or none.
        :param is_source: generation and conditions are those of a copy's source.
        """
        query = self.query
        generation = query.get("sourceGeneration" if is_source else "generation")
        return Target(
            bucket=self.part(f"{prefix}bucket"),
            name=self.part(f"{prefix}object"),
            generation=whole_number("generation", generation) if generation else None,
            conditions=Conditions.of(query, "ifSource" if is_source else "if"),
        )

    async def require(self, permission: str, bucket: str = "", name: str = "") -> bool:
        """
        Return whether the caller may also replace or delete what is there.

        :param bucket: empty: all of the project that the request names.
        :param name: of the object; empty: the list.
        :raises Forbidden: it does not have ``permission``.
        :raises NotFound: there is no such bucket.
        """
        if self.access is None:
            return True
        if name:
            check_object_name(name)
        project = (await self.run(self.store.bucket, bucket)).project if bucket else self.project
        address = self.request.client.host if self.request.client else ""
        return await self.access.check(
            Question(address=address, permission=permission, bucket=bucket, project=project, object=name)
        )

    async def readable(self, target: Target) -> Target:
        """Return ``target``. :raises Forbidden: the caller may not read it."""
        await self.require(GET, target.bucket, target.name)
        return target

    async def writable(self, target: Target) -> Target:
        """
        Return ``target``, with the condition that it is new where the caller may replace nothing.

        :raises Forbidden: the caller may not write it.
        """
        if self.access is None:
            return target
        check_object_name(target.name)
        if await self.require(CREATE, target.bucket, target.name):
            return target
        try:
            await self.run(self.store.object, Target(bucket=target.bucket, name=target.name))
        except NotFound:
            return replace(target, conditions=target.conditions.and_new())
        raise Forbidden(f"gs://{target.bucket}/{target.name} exists; to replace it the job needs {DELETE}")

    async def run(
        self, do: Callable[_Parameters, _Result], *arguments: _Parameters.args, **keywords: _Parameters.kwargs
    ) -> _Result:
        """Return what ``do`` returns on a thread, so that other requests go on meanwhile."""
        return await run_in_threadpool(do, *arguments, **keywords)

    async def json(self) -> dict[str, Any]:
        """
        Return the JSON object in the body; none is an empty one.

        :raises Invalid: it is something else.
        """
        return read_json(await self.short_body())

    async def short_body(self) -> bytes:
        """
        Return the whole body.

        :raises StoreError: 413: it has more than 1 MiB.
        """
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) > JSON_BYTES:
                raise StoreError(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    "uploadTooLarge",
                    f"the body may have {JSON_BYTES} bytes",
                )
        return bytes(body)

    async def chunks(self) -> AsyncIterator[bytes]:
        """
        Yield the body as it comes.

        :raises StoreError: 408: the client said nothing for a minute.
        :raises ClientDisconnect: it went away.
        """
        stream = self.request.stream()
        while True:
            try:
                async with asyncio.timeout(STALL_SECONDS):
                    chunk = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError:
                message = f"no byte of the body came for {STALL_SECONDS:.0f} s; send the rest again"
                raise StoreError(HTTPStatus.REQUEST_TIMEOUT, "timeout", message) from None
            yield chunk

    async def receive(self, chunks: AsyncIterator[bytes], file: GrowingFile) -> None:
        """Append the body to ``file``; while one piece is written and hashed, the next one comes."""
        writing: asyncio.Task[None] | None = None
        pieces: list[bytes] = []
        size = 0
        try:
            async for chunk in chunks:
                pieces.append(chunk)
                size += len(chunk)
                if size >= CHUNK_BYTES:
                    if writing:
                        await writing
                    writing = asyncio.create_task(self._write(file, b"".join(pieces)))
                    pieces, size = [], 0
        finally:
            # Keep what arrived before a disconnect: a resumable upload continues from it.
            if writing:
                await writing
            if pieces:
                await self._write(file, b"".join(pieces))

    async def _write(self, file: GrowingFile, piece: bytes) -> None:
        async with self.writing:
            await self.run(file.write, piece)

    def answer(self, resource: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
        """Return ``resource``, or the part of it that ``fields`` selects."""
        fields = self.query.get("fields")
        return JSONResponse(select(resource, parse_fields(fields)) if fields else resource, headers=headers)

    def object(self, stored: Object) -> Response:
        """Return an object's resource."""
        return self.answer(object_resource(stored, self.base_url))

    def bucket(self, bucket: Bucket) -> Response:
        """Return a bucket's resource."""
        return self.answer(bucket_resource(bucket, self.base_url))


def read_json(body: bytes) -> dict[str, Any]:
    """
    Return the JSON object ``body``; an empty one for nothing.

    :raises Invalid: it is something else.
    """
    try:
        value = json.loads(body or b"{}")
        # Python accepts lone surrogates and NaN; neither can be encoded in an answer.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise Invalid(f"Parse Error: the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Invalid("the body must be a JSON object")
    return value
