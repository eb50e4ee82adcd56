"""Registries in memory, behind every HTTP client of a test that asks one."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import httpx

#: Of every manifest.
MANIFEST_DIGEST = "sha256:" + "d" * 64


class FakeRegistry:
    """Keeps the configurations of images, by ``REPOSITORY:TAG`` without their host."""

    def __init__(self) -> None:
        self.images: dict[str, dict[str, Any]] = {}
        self.requests: list[httpx.Request] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        repository, kind, name = request.url.path.removeprefix("/v2/").rsplit("/", 2)
        if kind == "blobs":
            found = next(each for each in self.images.values() if configuration_digest(each) == name)
            return httpx.Response(200, content=_written(found))
        image = f"{repository}:{name}"
        if image not in self.images:
            return httpx.Response(404)
        return httpx.Response(
            200,
            headers={"Docker-Content-Digest": MANIFEST_DIGEST},
            json={"config": {"digest": configuration_digest(self.images[image])}},
        )


def configuration_digest(configuration: dict[str, Any]) -> str:
    """Return the id of an image."""
    return f"sha256:{hashlib.sha256(_written(configuration)).hexdigest()}"


def _written(configuration: dict[str, Any]) -> bytes:
    return json.dumps(configuration).encode()
