"""Objects' bytes."""

from __future__ import annotations

import asyncio
import re
from email.utils import formatdate
from http import HTTPStatus
from typing import BinaryIO

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from object_store.api.call import STALL_SECONDS, Call
from object_store.data.contents import CHUNK_BYTES
from object_store.data.records import Object
from object_store.errors import NoSuchRange
from object_store.resources import hash_header, object_etag

_RANGE = re.compile(r"bytes=(?:(\d{1,19})-(\d{0,19})|-(\d{1,19}))")
#: What a browser shows without running anything in it.
_HARMLESS = re.compile(r"text/plain|image/(?:png|jpeg|gif|webp)")


async def download(call: Call) -> Response:
    """
    Return an object's bytes, or a range of them.

    :raises NoSuchRange: the range begins after the end.
    """
    stored, file = await call.run(call.store.open, call.target())
    try:
        wanted = call.request.headers.get("range")
        start, end = _range_of(wanted, stored.content.size) if wanted else (0, stored.content.size)
        headers = _headers(stored)
        headers["content-length"] = str(end - start)
        is_part = wanted is not None and (_RANGE.fullmatch(wanted) is not None)
        if is_part:
            headers["content-range"] = f"bytes {start}-{end - 1}/{stored.content.size}"
        file.seek(start)
    except BaseException:
        file.close()
        raise
    status = HTTPStatus.PARTIAL_CONTENT if is_part else HTTPStatus.OK
    return _FileAnswer(
        call.request, file, 0 if call.request.method == "HEAD" else end - start, status, headers
    )


class _FileAnswer(Response):
    """An answer whose body is read while it is sent."""

    def __init__(
        self, request: Request, file: BinaryIO, size: int, status: int, headers: dict[str, str]
    ) -> None:
        self._request = request
        self._file = file
        self._left = size
        self.background = None
        self.status_code = status
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer; a reader that takes nothing for a minute is cut off."""
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            while self._left and not await self._request.is_disconnected():
                chunk = await run_in_threadpool(self._file.read, min(CHUNK_BYTES, self._left))
                if not chunk:
                    raise OSError("the file of an object is shorter than the catalog says")
                self._left -= len(chunk)
                async with asyncio.timeout(STALL_SECONDS):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._file.close()


def _range_of(text: str, size: int) -> tuple[int, int]:
    """Return the first byte and the one after the last; of what is no single range, all."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return 0, size
    first, last, tail = found.groups()
    start = max(size - int(tail), 0) if tail else int(first)
    end = min(int(last) + 1, size) if last else size
    if start >= size or start >= end:
        raise NoSuchRange(text, size)
    return start, end


def _headers(stored: Object) -> dict[str, str]:
    content, fields = stored.content, stored.fields
    kind = fields.get("contentType", "application/octet-stream")
    disposition = fields.get("contentDisposition", "")
    is_harmless = _HARMLESS.fullmatch(kind.partition(";")[0].strip().lower())
    headers = {
        "content-type": kind,
        "etag": f'"{object_etag(stored)}"',
        "last-modified": formatdate(stored.updated / 1_000_000, usegmt=True),
        "accept-ranges": "bytes",
        "x-goog-generation": str(stored.generation),
        "x-goog-metageneration": str(stored.metageneration),
        "x-goog-storage-class": "STANDARD",
        "x-goog-stored-content-length": str(content.size),
        "x-goog-stored-content-encoding": fields.get("contentEncoding", "identity"),
        "x-goog-hash": hash_header(content),
        # A trainer's page must not run as one of this store's.
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox; default-src 'none'",
        "content-disposition": disposition if is_harmless and disposition else "attachment",
        "cache-control": fields.get("cacheControl", "no-cache"),
    }
    if encoding := fields.get("contentEncoding"):
        headers["content-encoding"] = encoding
    if language := fields.get("contentLanguage"):
        headers["content-language"] = language
    # HTTP headers are Latin-1; a text that is not is left to the JSON resource.
    return {name: value for name, value in headers.items() if value.isascii() and value.isprintable()}
