"""A store in a folder of the test, and its application without a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from object_store.api.metrics import Metrics
from object_store.api.policies import BucketPolicies
from object_store.app import App
from object_store.conditions import Conditions
from object_store.data.contents import new_key
from object_store.data.records import Object
from object_store.store import Store, Target
from object_store.uploads import Uploads

BUCKET = "/storage/v1/b/demo"
UPLOAD = "/upload/storage/v1/b/demo/o"


class Site:
    """An application and a client of it."""

    def __init__(
        self, root: Path, *, address: str = "127.0.0.1", host: str = "localhost", **settings: Any
    ) -> None:
        floor_bytes = settings.pop("floor_bytes", 0)
        policies = settings.pop("policies", None) or BucketPolicies(None)
        self.root = root
        self.store = Store(root, floor_bytes)
        self.app = App(self.store, policies, Metrics(self.store, floor_bytes), **settings)
        self.runner = asyncio.Runner()
        transport = httpx.ASGITransport(self.app, client=(address, 5000))
        self._client = httpx.AsyncClient(transport=transport, base_url=f"http://{host}:9023")

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Return the answer to one request."""
        return self.runner.run(self._client.request(method, path, **options))

    def put(self, name: str, content: bytes | AsyncIterable[bytes] = b"", **options: Any) -> dict[str, Any]:
        """Store an object in ``demo``; return its resource."""
        params = {"uploadType": "media", "name": name, **options.pop("params", {})}
        answer = self.ask("POST", UPLOAD, params=params, content=content, **options)
        assert answer.status_code == 200, answer.text
        resource: dict[str, Any] = answer.json()
        return resource

    def get(self, name: str, **options: Any) -> bytes:
        """Return the bytes of an object in ``demo``."""
        params = {"alt": "media", **options.pop("params", {})}
        answer = self.ask("GET", f"{BUCKET}/o/{name}", params=params, **options)
        assert answer.status_code in (200, 206), answer.text
        return answer.content

    def close(self) -> None:
        """Close the store and the loop."""
        self.runner.run(self._client.aclose())
        self.runner.close()
        self.store.close()


MakeSite = Callable[..., Site]


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[MakeSite]:
    """Make sites, each with a store of its own, or in the folder that is given."""
    with ExitStack() as stack:

        def make(name: str = "store", **settings: Any) -> Site:
            site = Site(tmp_path / name, **settings)
            stack.callback(site.close)
            return site

        yield make


@pytest.fixture
def site(make_site: MakeSite) -> Site:
    """Return a site with the bucket ``demo``."""
    site = make_site()
    site.store.create_bucket("demo", {})
    return site


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return a store with the bucket ``demo``."""
    store = Store(tmp_path / "store")
    store.create_bucket("demo", {})
    yield store
    store.close()


@pytest.fixture
def uploads(store: Store) -> Uploads:
    """Return the uploads of the store."""
    return Uploads(store)


def target(name: str, generation: int | None = None, **conditions: int) -> Target:
    """Return an object in ``demo`` with conditions by name without prefix."""
    return Target(bucket="demo", name=name, generation=generation, conditions=Conditions(conditions))


def put(
    store: Store, at: Target | str, content: bytes = b"", fields: Mapping[str, Any] | None = None
) -> Object:
    """Store an object."""
    key = new_key()
    file = store.contents.grow(key)
    file.write(content)
    file.close()
    at = target(at) if isinstance(at, str) else at
    try:
        return store.put(at, fields or {}, key, file.hashes.content(new_key()))
    finally:
        store.contents.drop_upload(key)


def read(store: Store, at: Target | str) -> bytes:
    """Return the bytes of an object."""
    _, file = store.open(target(at) if isinstance(at, str) else at)
    with file:
        return file.readall()  # type: ignore[attr-defined,no-any-return]  # it is not buffered


def files(store: Store) -> list[tuple[str, str]]:
    """Return all files of contents and uploads."""
    return sorted(store.contents.files())
