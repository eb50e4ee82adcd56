"""
The part of the XML API that clients for the JSON API use.

They are objects by path, which TensorFlow reads, and uploads in parts, which google-cloud-storage's transfer
manager makes.

Source: https://cloud.google.com/storage/docs/xml-api/overview and .../docs/multipart-uploads (2026-11-20).
"""

from __future__ import annotations

import re
from xml.sax.saxutils import escape

from starlette.responses import Response

from object_store.api import objects, uploads
from object_store.api.call import Call
from object_store.api.downloads import download
from object_store.conditions import whole_number
from object_store.errors import Invalid
from object_store.resources import hash_header, object_etag, object_fields
from object_store.store import Target

_PART = re.compile(
    rb"<PartNumber>(\d{1,5})</PartNumber>\s*<ETag>(?:&quot;|\")?([A-Za-z0-9+/=]{24})(?:&quot;|\")?</ETag>"
)
_METADATA = "x-goog-meta-"
#: Header -> field of the object.
_FIELDS = {
    "cache-control": "cacheControl",
    "content-disposition": "contentDisposition",
    "content-encoding": "contentEncoding",
    "content-language": "contentLanguage",
    "x-goog-custom-time": "customTime",
}


async def get(call: Call) -> Response:
    """Return an object's bytes."""
    return await download(call)


async def put(call: Call) -> Response:
    """Store an object, or a part of one."""
    if "uploadId" in call.query:
        return await _put_part(call)
    stored = await uploads.store(call, call.target(), call.chunks(), _body(call))
    return Response(headers={"etag": f'"{object_etag(stored)}"', "x-goog-generation": str(stored.generation)})


async def post(call: Call) -> Response:
    """Begin or complete an upload in parts."""
    if "uploadId" in call.query:
        return await _complete(call)
    if "uploads" not in call.query:
        raise Invalid("a POST to an object needs ?uploads or ?uploadId=KEY; forms are not served")
    fields = {"contentType": call.request.headers.get("content-type", "application/octet-stream")}
    target = await call.writable(call.target())
    key = await call.run(call.uploads.begin, target, {**fields, **object_fields(_body(call))})
    return _xml("InitiateMultipartUploadResult", target, f"<UploadId>{key}</UploadId>")


async def delete(call: Call) -> Response:
    """Delete an object, or cancel an upload in parts."""
    if "uploadId" not in call.query:
        return await objects.delete(call)
    await call.run(call.uploads.cancel, call.query["uploadId"])
    return Response(status_code=204)


async def _put_part(call: Call) -> Response:
    key, number = call.query["uploadId"], whole_number("partNumber", call.query.get("partNumber", ""))
    file = await call.run(call.uploads.take_part, key, number)
    try:
        await call.receive(call.chunks(), file)
        content = await call.run(call.uploads.keep_part, key, number, file, uploads.hashes(call, {}))
    except BaseException:
        call.uploads.drop_part(file)
        raise
    finally:
        file.close()
    return Response(headers={"etag": f'"{content.md5}"', "x-goog-hash": hash_header(content)})


async def _complete(call: Call) -> Response:
    parts = {int(number): etag.decode() for number, etag in _PART.findall(await call.short_body())}
    if not parts:
        raise Invalid("the body must be a CompleteMultipartUpload with the PartNumber and ETag of each part")
    stored = await call.run(call.uploads.join_parts, call.query["uploadId"], parts)
    return _xml("CompleteMultipartUploadResult", call.target(), f"<ETag>{object_etag(stored)}</ETag>")


def _body(call: Call) -> dict[str, object]:
    """Return the object's resource, as far as headers give it."""
    headers = call.request.headers
    metadata = {
        name.removeprefix(_METADATA): value for name, value in headers.items() if name.startswith(_METADATA)
    }
    body: dict[str, object] = {field: headers[name] for name, field in _FIELDS.items() if name in headers}
    return {**body, "metadata": metadata} if metadata else body


def _xml(kind: str, target: Target, more: str) -> Response:
    text = (
        f"<?xml version='1.0' encoding='UTF-8'?>\n<{kind} xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
        f"<Bucket>{escape(target.bucket)}</Bucket><Key>{escape(target.name)}</Key>{more}</{kind}>"
    )
    return Response(text, media_type="application/xml")
