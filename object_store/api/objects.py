"""The collection ``o``: objects, but for their bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.responses import Response

from object_store.api.access import DELETE
from object_store.api.call import Call
from object_store.api.downloads import download
from object_store.conditions import Conditions, whole_number
from object_store.errors import Invalid
from object_store.listing import ListQuery
from object_store.resources import object_resource
from object_store.store import Target


async def list_all(call: Call) -> Response:
    """List the objects of a bucket."""
    return await call.run(_list, call)


def _list(call: Call) -> Response:
    """Make the whole answer on a thread: a thousand objects take some 20 ms."""
    page = call.store.page(call.part("bucket"), ListQuery.of(call.query))
    items = [object_resource(stored, call.base_url) for stored in page.objects]
    return call.answer(
        {
            "kind": "storage#objects",
            **({"nextPageToken": page.next_token} if page.next_token else {}),
            **({"prefixes": page.prefixes} if page.prefixes else {}),
            **({"items": items} if items else {}),
        }
    )


async def get(call: Call) -> Response:
    """Return an object, or its bytes."""
    if call.query.get("alt") == "media":
        return await download(call)
    return call.object(await call.run(call.store.object, call.target()))


async def patch(call: Call) -> Response:
    """Change what the body names; PUT replaces all."""
    body = await call.json()
    return call.object(
        await call.run(call.store.patch, call.target(), body, anew=call.request.method == "PUT")
    )


async def delete(call: Call) -> Response:
    """Delete an object or one generation."""
    await call.run(call.store.delete, call.target())
    return Response(status_code=204)


async def copy(call: Call) -> Response:
    """Copy an object within the store."""
    return call.object(await call.run(call.store.copy, *await _two(call), await call.json()))


async def rewrite(call: Call) -> Response:
    """Copy an object within the store; one answer is always enough."""
    stored = await call.run(call.store.copy, *await _two(call), await call.json())
    resource = object_resource(stored, call.base_url)
    size = resource["size"]
    return call.answer(
        {
            "kind": "storage#rewriteResponse",
            "totalBytesRewritten": size,
            "objectSize": size,
            "done": True,
            "resource": resource,
        }
    )


async def move(call: Call) -> Response:
    """Give an object another name."""
    source, target = await _two(call)
    await call.require(DELETE, source.bucket, source.name)
    return call.object(await call.run(call.store.move, source, target))


async def compose(call: Call) -> Response:
    """Join up to 32 objects to one."""
    body = await call.json()
    sources = body.get("sourceObjects")
    if not isinstance(sources, list):
        raise Invalid("sourceObjects must be a list of objects with a name")
    bucket = call.part("bucket")
    read = [await call.readable(_source(bucket, source)) for source in sources]
    destination = body.get("destination") or {}
    if not isinstance(destination, dict):
        raise Invalid("destination must be an object")
    target = await call.writable(call.target())
    return call.object(await call.run(call.store.compose, target, read, destination))


async def _two(call: Call) -> tuple[Target, Target]:
    """Return the source and the target of a copy."""
    source, target = call.target("source_", is_source=True), call.target()
    # A generation in the request is the source's.
    return await call.readable(source), await call.writable(replace(target, generation=None))


def _source(bucket: str, source: Any) -> Target:
    if not isinstance(source, dict) or not isinstance(source.get("name"), str):
        raise Invalid("each of sourceObjects must be an object with a name")
    generation = source.get("generation")
    wanted = source.get("objectPreconditions") or {}
    if not isinstance(wanted, dict):
        raise Invalid("objectPreconditions must be an object")
    return Target(
        bucket=bucket,
        name=source["name"],
        generation=None if generation is None else whole_number("generation", str(generation)),
        conditions=Conditions.of({name: str(value) for name, value in wanted.items()}),
    )
