"""
Buckets and objects as the JSON API writes and reads them.

Source: https://cloud.google.com/storage/docs/json_api/v1/objects and .../buckets (2026-11-20).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from object_store.data.records import Bucket, Content, Object, timestamp
from object_store.errors import Invalid, NotServed

#: What a client may set of an object; all are texts but the last.
_OBJECT_TEXTS = (
    "cacheControl",
    "contentDisposition",
    "contentEncoding",
    "contentLanguage",
    "contentType",
    "customTime",
    "storageClass",
)
_OBJECT_FIELDS = (*_OBJECT_TEXTS, "metadata")
#: What a client may set of a bucket.
_BUCKET_FIELDS = ("labels", "versioning", "location", "storageClass")
#: What Cloud Storage does and this store does not; an empty value asks for nothing.
_NOT_SERVED_OF_OBJECTS = ("eventBasedHold", "temporaryHold", "retention", "kmsKeyName", "contexts")
_NOT_SERVED_OF_BUCKETS = (
    "autoclass",
    "billing",
    "cors",
    "defaultEventBasedHold",
    "encryption",
    "hierarchicalNamespace",
    "ipFilter",
    "lifecycle",
    "logging",
    "objectRetention",
    "retentionPolicy",
    "softDeletePolicy",
    "website",
)
_METADATA_BYTES = 8 * 1024
_PLAIN = re.compile(r"[A-Za-z0-9_.~/-]*")
_PROJECT_NUMBER = "123456789012"


def object_fields(body: Mapping[str, Any], present: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """
    Return what a client set, over what there was.

    :param body: a JSON body; a value of ``None`` removes what there was.
    :param present: of the object that is patched; default: a new one.
    :raises NotServed: it asks for holds, retention or keys.
    :raises Invalid: a value is of another type, or the metadata are more than 8 KiB.
    """
    _refuse(body, _NOT_SERVED_OF_OBJECTS, "of objects")
    fields = dict(present or {})
    for name in _OBJECT_FIELDS:
        if name not in body:
            continue
        value = body[name]
        if value is None:
            fields.pop(name, None)
        elif name == "metadata":
            fields[name] = _merged(fields.get(name), value)
        elif isinstance(value, str) and "\r" not in value and "\n" not in value:
            fields[name] = value
        else:
            raise Invalid(f"{name} must be a text without line breaks, got {str(value)[:60]!r}")
    if "customTime" in body and body["customTime"] is not None:
        _check_time(fields["customTime"])
    return fields


def bucket_fields(body: Mapping[str, Any], present: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """
    Return what a client set of a bucket, over what there was.

    :raises NotServed: it asks for a lifecycle, retention, CORS, a website, or the like.
    :raises Invalid: a value is of another type.
    """
    _refuse(body, _NOT_SERVED_OF_BUCKETS, "of buckets")
    fields = dict(present or {})
    for name in _BUCKET_FIELDS:
        if name not in body:
            continue
        value = body[name]
        if value is None:
            fields.pop(name, None)
        elif name == "labels":
            fields[name] = _merged(fields.get(name), value)
        elif name == "versioning":
            if not isinstance(value, dict) or not isinstance(value.get("enabled", False), bool):
                raise Invalid(f'versioning must be {{"enabled": true}} or false, got {str(value)[:60]!r}')
            fields[name] = {"enabled": value.get("enabled", False)}
        elif isinstance(value, str):
            fields[name] = value.upper()
        else:
            raise Invalid(f"{name} must be a text, got {str(value)[:60]!r}")
    return fields


def object_resource(stored: Object, base_url: str) -> dict[str, Any]:
    """
    Return an object as JSON.

    :param base_url: the store's, as the reader calls it: containers have another name for it.
    """
    content = stored.content
    created = timestamp(stored.created)
    updated = created if stored.updated == stored.created else timestamp(stored.updated)
    path = f"{stored.bucket}/o/{_encoded(stored.name)}"
    return {
        "kind": "storage#object",
        "id": f"{stored.bucket}/{stored.name}/{stored.generation}",
        "selfLink": f"{base_url}/storage/v1/b/{path}",
        "mediaLink": f"{base_url}/download/storage/v1/b/{path}?generation={stored.generation}&alt=media",
        "name": stored.name,
        "bucket": stored.bucket,
        "generation": str(stored.generation),
        "metageneration": str(stored.metageneration),
        "storageClass": "STANDARD",
        "size": str(content.size),
        **({"md5Hash": content.md5} if content.md5 else {}),
        "crc32c": content.crc32c,
        **({"componentCount": content.components} if content.components else {}),
        "etag": object_etag(stored),
        "timeCreated": created,
        "updated": updated,
        "timeStorageClassUpdated": created,
        "timeFinalized": created,
        **({} if stored.deleted is None else {"timeDeleted": timestamp(stored.deleted)}),
        **stored.fields,
    }


def _encoded(name: str) -> str:
    # quote() takes ten times as long, and most names are plain.
    return name.replace("/", "%2F") if _PLAIN.fullmatch(name) else quote(name, safe="")


def object_etag(stored: Object) -> str:
    """Return a text that changes with contents and metadata."""
    return base64.b64encode(f"{stored.generation}/{stored.metageneration}".encode()).decode()


def hash_header(content: Content) -> str:
    """Return the value of ``x-goog-hash``."""
    return f"crc32c={content.crc32c}" + (f",md5={content.md5}" if content.md5 else "")


def bucket_resource(bucket: Bucket, base_url: str) -> dict[str, Any]:
    """Return a bucket as JSON."""
    return {
        "kind": "storage#bucket",
        "id": bucket.name,
        "selfLink": f"{base_url}/storage/v1/b/{bucket.name}",
        "name": bucket.name,
        "projectNumber": _PROJECT_NUMBER,
        "generation": str(bucket.created),
        "metageneration": str(bucket.metageneration),
        "location": "US",
        "locationType": "region",
        "storageClass": "STANDARD",
        "etag": base64.b64encode(str(bucket.metageneration).encode()).decode(),
        "timeCreated": timestamp(bucket.created),
        "updated": timestamp(bucket.updated),
        "iamConfiguration": {
            "uniformBucketLevelAccess": {"enabled": True},
            "publicAccessPrevention": "inherited",
        },
        "softDeletePolicy": {"retentionDurationSeconds": "0"},
        **bucket.fields,
    }


def _merged(present: Mapping[str, str] | None, changes: object) -> dict[str, str]:
    """Return texts by name; ``None`` removes one."""
    if not isinstance(changes, dict) or not all(
        value is None or isinstance(value, str) for value in changes.values()
    ):
        raise Invalid("metadata and labels must be an object with texts as its values")
    merged = {**(present or {}), **changes}
    merged = {name: value for name, value in merged.items() if value is not None}
    if sum(len(name.encode()) + len(value.encode()) for name, value in merged.items()) > _METADATA_BYTES:
        raise Invalid(f"metadata and labels may have {_METADATA_BYTES} bytes in all, names included")
    if any(sign in text for pair in merged.items() for text in pair for sign in "\r\n"):
        raise Invalid("metadata and labels may not have line breaks")
    return merged


def _refuse(body: Mapping[str, Any], names: tuple[str, ...], whose: str) -> None:
    for name in names:
        value = body.get(name)
        asked = value.values() if isinstance(value, dict) else (value,)
        # "0" is a retention of no seconds.
        if any(each and each != "0" for each in asked):
            raise NotServed(f"{name} {whose}")


def _check_time(text: str) -> None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Invalid(f"customTime must be a time in RFC 3339 with its zone, got {text[:60]!r}")
