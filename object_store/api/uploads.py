"""
The bytes of new objects: media, multipart and resumable uploads.

Source: https://cloud.google.com/storage/docs/uploads-downloads and .../resumable-uploads (2026-11-20).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from object_store.api.call import JSON_BYTES, Call, read_json
from object_store.conditions import Conditions
from object_store.data.contents import GrowingFile, check_hashes, new_key
from object_store.data.records import Object
from object_store.errors import Invalid, NotServed, StoreError
from object_store.resources import object_fields
from object_store.store import Target

_BOUNDARY = re.compile(
    r"""multipart/\w+;.*?\bboundary=(?:"([^"]{1,200})"|'([^']{1,200})'|([^;\s]{1,200}))""", re.I
)
_CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,19})-(?:\d{1,19}|\*)|\*)/(\d{1,19}|\*)")
_HASH = re.compile(r"(crc32c|md5)=([A-Za-z0-9+/]+=*)")
_NO_KIND = "application/octet-stream"
_PUBLIC = ("publicRead", "publicReadWrite", "authenticatedRead")
#: Of Google's front ends: the client has cancelled the upload.
_CANCELLED = 499
_RESUME = 308


async def insert(call: Call) -> Response:
    """Store an object, or start a resumable upload; gcsfs also sends its chunks by POST."""
    if "upload_id" in call.query:
        return await resume(call)
    if call.query.get("predefinedAcl") in _PUBLIC:
        raise NotServed("access control lists of objects")
    kind = call.query.get("uploadType", "media")
    if kind == "resumable":
        return await _begin(call)
    if kind == "multipart":
        return await _multipart(call)
    if kind == "media":
        return await put(call, _target(call, {}), call.chunks(), {})
    raise Invalid(f"uploadType must be media, multipart or resumable, got {kind[:40]!r}")


async def put(
    call: Call, target: Target, chunks: AsyncIterator[bytes], body: Mapping[str, Any], kind: str | None = None
) -> Response:
    """
    Store an object whose bytes come with this request.

    :param body: its resource, as far as the client gives it.
    :param kind: its content type; default: that of the request.
    """
    return call.object(await store(call, target, chunks, body, kind))


async def store(
    call: Call, target: Target, chunks: AsyncIterator[bytes], body: Mapping[str, Any], kind: str | None = None
) -> Object:
    """Return the object; see :func:`put`."""
    fields = _fields(call, body, kind or call.request.headers.get("content-type"))
    wanted = hashes(call, body)
    target = await call.writable(target)
    await call.run(call.store.require_writable, target)
    key = new_key()
    file = await call.run(call.store.contents.grow, key)
    try:
        await call.receive(chunks, file)
        return await call.run(_publish, call, target, fields, key, file, wanted)
    except BaseException:
        call.store.contents.drop_upload(key)
        raise
    finally:
        file.close()


def _publish(
    call: Call, target: Target, fields: Mapping[str, Any], key: str, file: GrowingFile, wanted: dict[str, str]
) -> Object:
    content = file.hashes.content(new_key())
    check_hashes(content, wanted)
    file.flush()
    return call.store.put(target, fields, key, content)


async def _multipart(call: Call) -> Response:
    chunks = call.chunks()
    head = _MultipartBody(call.request.headers.get("content-type", ""), chunks)
    body, kind = await head.read_head()
    return await put(call, _target(call, body), head.media(), body, kind or _NO_KIND)


class _MultipartBody:
    """
    A JSON part and a part with bytes, read as they come.

    Lines may end with LF alone (gcloud does so).
    """

    def __init__(self, content_type: str, chunks: AsyncIterator[bytes]) -> None:
        found = _BOUNDARY.match(content_type)
        if found is None:
            raise Invalid("a multipart upload needs Content-Type: multipart/related; boundary=TEXT")
        self._mark = b"--" + next(group for group in found.groups() if group).encode()
        self._chunks = chunks
        self._buffer = b""
        self._line_end = b"\r\n"

    async def read_head(self) -> tuple[dict[str, Any], str | None]:
        """Return the JSON part, and the content type of the other part."""
        while (found := self._find_head()) is None:
            if len(self._buffer) > 2 * JSON_BYTES or not await self._more():
                raise Invalid(
                    "a multipart upload has two parts, the first one JSON; see Content-Type's boundary"
                )
        body, headers, end = found
        self._buffer = self._buffer[end:]
        kind = re.search(rb"^content-type:[ \t]*([^\r\n]+)", headers, re.I | re.M)
        return read_json(body), kind[1].decode("latin-1").strip() if kind else None

    def _find_head(self) -> tuple[bytes, bytes, int] | None:
        """Return the first part's body, the second part's headers, and where its bytes begin."""
        if (first := self._find_headers(self._buffer.find(self._mark))) is None:
            return None
        second_at = self._buffer.find(b"\n" + self._mark, first[1] - 1)
        if second_at < 0 or (second := self._find_headers(second_at + 1)) is None:
            return None
        return self._buffer[first[1] : second_at].rstrip(b"\r"), second[0], second[1]

    def _find_headers(self, mark_at: int) -> tuple[bytes, int] | None:
        """Return the headers after the mark, and where what they describe begins."""
        line_end = self._buffer.find(b"\n", mark_at) if mark_at >= 0 else -1
        if line_end < 0:
            return None
        blanks = [
            (at, len(sign)) for sign in (b"\n\r\n", b"\n\n") if (at := self._buffer.find(sign, line_end)) >= 0
        ]
        if not blanks:
            return None
        at, length = min(blanks)
        # Where lines end with LF, a CR before the last mark is the media's own.
        self._line_end = b"\r\n" if length > 2 else b"\n"
        return self._buffer[line_end:at], at + length

    async def media(self) -> AsyncIterator[bytes]:
        """Yield the bytes of the second part."""
        # The mark that ends the body, with line ends before and after it.
        held = len(self._mark) + 16
        while True:
            if len(self._buffer) > held:
                yield self._buffer[:-held]
                self._buffer = self._buffer[-held:]
            if not await self._more():
                break
        end = re.search(re.escape(self._line_end + self._mark) + rb"--\s*\Z", self._buffer)
        if end is None:
            raise Invalid("the multipart upload ends before its last boundary; send it again")
        yield self._buffer[: end.start()]

    async def _more(self) -> bool:
        chunk = await anext(self._chunks, None)
        self._buffer += chunk or b""
        return chunk is not None


async def _begin(call: Call) -> Response:
    body = await call.json()
    target = await call.writable(_target(call, body))
    fields = _fields(call, body, call.request.headers.get("x-upload-content-type"))
    key = await call.run(call.uploads.begin, target, fields, hashes(call, body))
    path = f"/upload/storage/v1/b/{call.parts['bucket']}/o?uploadType=resumable&upload_id={key}"
    return Response(headers={"location": call.base_url + path, "x-guploader-uploadid": key})


async def resume(call: Call) -> Response:
    """Take the next bytes of a resumable upload, or say how many are here."""
    key = call.query.get("upload_id", "")
    upload = await call.run(call.uploads.find, key)
    if stored := await call.run(call.uploads.outcome, upload):
        return call.object(stored)
    start, total = _content_range(call.request.headers.get("content-range"))
    file = await call.run(call.uploads.take, key)
    try:
        if start is not None:
            await call.receive(_skip(call.chunks(), file.size - start), file)
        if total is None or file.size < total:
            return _here(file.size)
        if file.size > total >= 0:
            raise Invalid(f"the upload has {file.size} bytes, its Content-Range says {total}")
        return call.object(await call.run(call.uploads.finish, upload, file, hashes(call, {})))
    finally:
        call.uploads.leave(key, file)


async def cancel(call: Call) -> Response:
    """Forget a resumable upload."""
    await call.run(call.uploads.cancel, call.query.get("upload_id", ""))
    return Response(status_code=_CANCELLED)


def _here(size: int) -> Response:
    """Tell the client how many bytes were received; it continues after them."""
    return Response(status_code=_RESUME, headers={"range": f"bytes=0-{size - 1}"} if size else {})


def _content_range(text: str | None) -> tuple[int | None, int | None]:
    """
    Return where the bytes of a request begin, and how many there are in all.

    No begin: it has none, and asks. No size: more will come; -1: these are the last.
    """
    if text is None:
        return 0, -1
    found = _CONTENT_RANGE.fullmatch(text)
    if found is None:
        raise Invalid(f"Content-Range must be 'bytes FIRST-LAST/TOTAL' or 'bytes */TOTAL', got {text[:60]!r}")
    first, total = found.groups()
    return None if first is None else int(first), None if total == "*" else int(total)


async def _skip(chunks: AsyncIterator[bytes], count: int) -> AsyncIterator[bytes]:
    """
    Yield the bytes after the first ``count``, which are here already.

    :raises StoreError: 503: bytes between what is here and these are missing; the client asks what is here.
    """
    if count < 0:
        raise StoreError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "backendError",
            f"{-count} bytes before these are missing; ask what is here",
        )
    async for chunk in chunks:
        if count < len(chunk):
            yield chunk[count:]
        count = max(count - len(chunk), 0)


def _target(call: Call, body: Mapping[str, Any]) -> Target:
    query = call.query
    name = query.get("name") or body.get("name")
    return Target(bucket=call.part("bucket"), name=name or "", conditions=Conditions.of(query))


def _fields(call: Call, body: Mapping[str, Any], kind: str | None) -> dict[str, Any]:
    fields = object_fields(body)
    if encoding := call.query.get("contentEncoding"):
        fields["contentEncoding"] = encoding
    return {"contentType": kind or _NO_KIND, **fields}


def hashes(call: Call, body: Mapping[str, Any]) -> dict[str, str]:
    """Return the client's hashes, base64 by name."""
    found: dict[str, str] = {}
    if isinstance(md5 := body.get("md5Hash") or call.request.headers.get("content-md5"), str):
        found["md5"] = md5
    if isinstance(crc32c := body.get("crc32c"), str):
        found["crc32c"] = crc32c
    for value in call.request.headers.getlist("x-goog-hash"):
        found.update(_HASH.findall(value))
    return found
