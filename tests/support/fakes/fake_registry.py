"""Registries in memory, behind every HTTP client of a test that asks one."""

from __future__ import annotations

import hashlib
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
            return httpx.Response(
                200,
                json=next(
                    found for image, found in self.images.items() if configuration_digest(image) == name
                ),
            )
        image = f"{repository}:{name}"
        if image not in self.images:
            return httpx.Response(404)
        return httpx.Response(
            200,
            headers={"Docker-Content-Digest": MANIFEST_DIGEST},
            json={"config": {"digest": configuration_digest(image)}},
        )


def configuration_digest(image: str) -> str:
    """Return the id of ``REPOSITORY:TAG``."""
    return f"sha256:{hashlib.sha256(image.encode()).hexdigest()}"
