"""What registries know of images, without an engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from container_training.work.images.build_context import open_context
from container_training.work.images.content import ImageContent
from container_training.work.images.registry_content import base_image_ref, content_by_registry, registries_of
from training_api.clients.network import Network
from training_api.errors import BuildFailed, RegistryUnavailable, TrainingError

Answer = Callable[[httpx.Request], httpx.Response]
DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("python", "registry-1.docker.io/library/python"),
        ("python:3.11-slim", "registry-1.docker.io/library/python:3.11-slim"),
        ("bitnami/python:3", "registry-1.docker.io/bitnami/python:3"),
        (f"python@{DIGEST}", f"registry-1.docker.io/library/python@{DIGEST}"),
        (f"python:3@{DIGEST}", f"registry-1.docker.io/library/python:3@{DIGEST}"),
        ("127.0.0.1:5000/p/base", "127.0.0.1:5000/p/base"),
        ("gcr.io/p/base:1", "gcr.io/p/base:1"),
    ],
)
def test_a_base_image_is_where_docker_would_look(name: str, address: str) -> None:
    assert str(base_image_ref(name)) == address


def content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str, answer: Answer) -> ImageContent:
    monkeypatch.setattr(Network, "transport", lambda self, url: httpx.MockTransport(answer))
    (tmp_path / "Dockerfile").write_text(f"FROM {base}\nCOPY --from=gcr.io/p/tools:1 /a /b\n")
    with (tmp_path.parent / f"{tmp_path.name}.tar").open("wb") as archive:
        return content_by_registry(
            open_context(tmp_path), "registry.example/p/digits", archive, lambda host: {}
        )


def test_the_registrys_digest_of_a_base_image_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(config: str | None) -> Answer:
        body = {"config": {"digest": config}} if config else {"manifests": []}
        return lambda request: httpx.Response(200, headers={"Docker-Content-Digest": DIGEST}, json=body)

    one = content(tmp_path, monkeypatch, "python:3", answer("sha256:1"))
    other = content(tmp_path, monkeypatch, "python:3", answer("sha256:2"))
    platforms = content(tmp_path, monkeypatch, "python:3", answer(None))

    assert len({one.ref, other.ref, platforms.ref}) == 3
    assert one.parts.base_images["python:3"] == "1"
    assert registries_of(one) == ("registry.example", "docker.io", "gcr.io")


@pytest.mark.parametrize(
    ("base", "status", "error", "message"),
    [
        (
            "python:3",
            404,
            BuildFailed,
            "FROM python:3: its registry has no such image; if the Dockerfile has",
        ),
        ("python:3", 403, BuildFailed, r"FROM python:3: registry registry-1\.docker\.io answered 403"),
        ("python:3", 503, RegistryUnavailable, "FROM python:3: registry .* answered 503"),
        ("localhost/base", 200, BuildFailed, "FROM localhost/base: it is on an engine only"),
        ("Python:3", 200, BuildFailed, "FROM Python:3: image repository .* is not lower-case"),
    ],
)
def test_a_base_image_that_cannot_be_had_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    base: str,
    status: int,
    error: type[TrainingError],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        content(tmp_path, monkeypatch, base, lambda request: httpx.Response(status))
