"""The collection ``b``: buckets."""

from __future__ import annotations

import re

from starlette.responses import Response

from object_store.api.call import Call
from object_store.conditions import Conditions, whole_number
from object_store.resources import bucket_resource
from object_store.use import use_below

_PAGE = 1000
#: Container Registry makes these with the first push to gcr.io; no push from here ever will.
REGISTRY_BUCKET = re.compile(r"(?:(?:us|eu|asia)\.)?artifacts\..+\.appspot\.com")


async def insert(call: Call) -> Response:
    """Make a bucket."""
    body = await call.json()
    return call.bucket(await call.run(call.store.create_bucket, body.get("name"), body, call.project))


async def list_all(call: Call) -> Response:
    """List buckets, of one project if it is named."""
    query = call.query
    limit = min(whole_number("maxResults", query.get("maxResults") or str(_PAGE)), _PAGE) or _PAGE
    prefix, after = query.get("prefix", ""), query.get("pageToken", "")
    found = await call.run(call.store.buckets, prefix, after, limit + 1, call.project)
    page = found[:limit]
    more = {"nextPageToken": page[-1].name} if len(found) > limit else {}
    items = [bucket_resource(bucket, call.base_url) for bucket in page]
    return call.answer({"kind": "storage#buckets", **more, **({"items": items} if items else {})})


async def get(call: Call) -> Response:
    """Return a bucket."""
    return call.bucket(await call.run(call.store.bucket, call.part("bucket"), Conditions.of(call.query)))


async def patch(call: Call) -> Response:
    """Change what the body names; PUT replaces all."""
    body, conditions = await call.json(), Conditions.of(call.query)
    anew = call.request.method == "PUT"
    return call.bucket(
        await call.run(call.store.patch_bucket, call.part("bucket"), body, conditions, anew=anew)
    )


async def delete(call: Call) -> Response:
    """Delete an empty bucket."""
    await call.run(call.store.delete_bucket, call.part("bucket"), Conditions.of(call.query))
    return Response(status_code=204)


async def storage_layout(call: Call) -> Response:
    """Say that names are flat; gcloud asks before it works with folders."""
    bucket = await call.run(call.store.bucket, call.part("bucket"))
    return call.answer(
        {
            "kind": "storage#storageLayout",
            "bucket": bucket.name,
            "location": bucket.fields.get("location", "US"),
            "locationType": "region",
            "hierarchicalNamespace": {"enabled": False},
        }
    )


async def use(call: Call) -> Response:
    """Return what was written below ``prefix`` since then, unfinished uploads included."""
    prefix, since = call.query.get("prefix", ""), whole_number("since", call.query.get("since") or "0")
    count, size = await call.run(use_below, call.store, call.part("bucket"), prefix, since)
    return call.answer({"objects": count, "bytes": size})


async def no_managed_folders(call: Call) -> Response:
    """List managed folders: there are none; gcloud asks before it removes a tree."""
    await call.run(call.store.bucket, call.part("bucket"))
    return call.answer({"kind": "storage#managedFolders"})
