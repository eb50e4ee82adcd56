"""Pushing with an engine that is a list of messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import docker.errors
import pytest

from container_training.work.images import pusher as image_pusher
from container_training.work.images.pusher import push_image
from container_training.work.images.registry import Manifest
from training_api.errors import (
    DiskFull,
    ImageNotFound,
    PushFailed,
    RegistryUnavailable,
    TrainingError,
)
from training_api.job.image_ref import ImageRef

DIGEST = "sha256:" + "a" * 64
REF = ImageRef(host="127.0.0.1:5000", repository="p/digits", tag="1")
DONE = {"progressDetail": {}, "aux": {"Tag": "1", "Digest": DIGEST, "Size": 1}}
REFUSED = {"error": 'Get "http://127.0.0.1:5000/v2/": dial tcp 127.0.0.1:5000: connect: connection refused'}


class FakeEngine:
    """Has one image; each push says the next list of messages."""

    def __init__(self, *pushes: list[dict[str, Any]], has_image: bool = True) -> None:
        self.hooks: dict[str, list[Any]] = {"response": []}
        self.pushes = list(pushes)
        self.has_image = has_image
        self.logins: list[Any] = []

    def inspect_image(self, name: str) -> dict[str, Any]:
        if not self.has_image:
            raise docker.errors.ImageNotFound("no", explanation="no")
        return {"Id": "sha256:1", "RepoDigests": []}

    def push(self, repository: str, *, auth_config: Any, **_: Any) -> Iterator[dict[str, Any]]:
        self.logins.append(auth_config)
        return iter(self.pushes.pop(0))


@pytest.fixture(autouse=True)
def registry_has(monkeypatch: pytest.MonkeyPatch) -> list[Manifest]:
    """What the registry has under the tag: nothing, or the first of the list."""
    manifests: list[Manifest] = []
    monkeypatch.setattr(
        image_pusher, "find_manifest", lambda ref, *, login: manifests[0] if manifests else None
    )
    return manifests


def push(engine: Any, lines: list[str] | None = None, ref: ImageRef = REF, **arguments: Any) -> Any:
    said = [] if lines is None else lines
    login = {"username": "u", "password": "secret"}
    return push_image(
        engine, ref, on_line=said.append, find_login=lambda host: login, max_wait_seconds=0, **arguments
    )


def test_the_digest_of_the_stream_is_returned_and_each_layer_reported_once() -> None:
    layer = [
        {"id": "l1", "status": "Preparing"},
        {"id": "l2", "status": "Preparing"},
        *({"id": "l1", "status": "Pushing", "progressDetail": {"current": n}} for n in range(100)),
        {"id": "l1", "status": "Pushed"},
        {"id": "l2", "status": "Layer already exists"},
        {"status": f"1: digest: {DIGEST} size: 1"},
        DONE,
    ]
    engine = FakeEngine(layer)
    lines: list[str] = []

    pushed = push(engine, lines)

    assert str(pushed.ref) == f"127.0.0.1:5000/p/digits@{DIGEST}"
    assert lines == [f"pushing {REF}", "layer l1: pushed (1/2)", "layer l2: layer already exists (2/2)"]
    assert engine.logins == [{"username": "u", "password": "secret"}]
    assert "secret" not in "".join(lines)


def test_an_image_that_the_registry_has_is_not_pushed(registry_has: list[Manifest]) -> None:
    registry_has.append(Manifest(digest=DIGEST, config_digest="sha256:1"))
    lines: list[str] = []

    pushed = push(FakeEngine(), lines)

    assert pushed.is_reused
    assert "in the registry already" in lines[-1]


def test_an_image_that_another_host_pushed_need_not_be_on_the_engine(registry_has: list[Manifest]) -> None:
    registry_has.append(Manifest(digest=DIGEST, config_digest="sha256:1"))

    pushed = push(FakeEngine(has_image=False), ref=replace(REF, digest=DIGEST))

    assert pushed.is_reused
    assert str(pushed.ref) == f"127.0.0.1:5000/p/digits@{DIGEST}"


def test_by_a_tag_alone_the_registrys_image_may_be_another_one(registry_has: list[Manifest]) -> None:
    registry_has.append(Manifest(digest=DIGEST, config_digest="sha256:1"))

    with pytest.raises(ImageNotFound, match="found from any host"):
        push(FakeEngine(has_image=False))


def test_an_image_that_the_registry_has_lost_is_pushed_again() -> None:
    pushed = push(FakeEngine([DONE]), ref=replace(REF, digest=DIGEST))

    assert not pushed.is_reused


def test_another_image_under_the_tag_is_replaced(registry_has: list[Manifest]) -> None:
    registry_has.append(Manifest(digest="sha256:" + "b" * 64, config_digest="sha256:other"))

    pushed = push(FakeEngine([DONE]))

    assert not pushed.is_reused
    assert pushed.ref.digest == DIGEST


def test_a_registry_that_is_down_is_asked_again() -> None:
    lines: list[str] = []

    pushed = push(FakeEngine([REFUSED], [REFUSED], [DONE]), lines, attempts=3)

    assert pushed.ref.digest == DIGEST
    assert sum("failed, next in" in line for line in lines) == 2


def test_a_registry_that_stays_down_is_named_with_the_attempts() -> None:
    with pytest.raises(RegistryUnavailable, match=r"registry 127\.0\.0\.1:5000 did not answer in 2 attempts"):
        push(FakeEngine([REFUSED], [REFUSED]), attempts=2)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("denied: requested access to the resource is denied", PushFailed),
        ("blob upload invalid: write /x: no space left on device", DiskFull),
    ],
)
def test_a_refusal_is_not_repeated(reason: str, expected: type[TrainingError]) -> None:
    engine = FakeEngine([{"errorDetail": {"message": reason}, "error": reason}])

    with pytest.raises(expected, match=reason.partition(":")[0]):
        push(engine, attempts=3)

    assert engine.pushes == []


def test_an_image_that_is_not_on_the_engine_is_named() -> None:
    with pytest.raises(ImageNotFound, match="build it first"):
        push(FakeEngine(has_image=False))
