"""Images that the stack builds: named by their content, built once, and pushed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest

from local_stack.errors import PartFailed
from local_stack.parts import own_image
from local_stack.parts.own_image import OwnImage
from local_stack.processes.progress import Progress
from tests.support.fakes.stack_workshop import FakeEngine

BASE = "python:3.11-slim"
PREFIX = "10.0.0.5:5000/demo-project"


def make_image(base: str = BASE, **files: bytes) -> OwnImage:
    return OwnImage(
        what="the image of a kind",
        repository="localhost/container-training/kind",
        base_image=base,
        files={"Dockerfile": b"FROM x", **files},
    )


def ensure(engine: FakeEngine) -> None:
    make_image().ensure(engine, Progress(quiet=True))  # type: ignore[arg-type]


def test_another_base_or_another_file_is_another_image() -> None:
    images = [
        make_image(),
        make_image("python:3.12"),
        make_image(a=b"1"),
        make_image(a=b"2"),
        make_image(b=b"2"),
    ]
    names = [image.name for image in images]

    assert len(set(names)) == 5
    assert all(name.startswith("localhost/container-training/kind:") for name in names)


def test_the_image_is_built_from_its_files_and_not_a_second_time() -> None:
    engine = FakeEngine()

    ensure(engine)
    ensure(engine)

    assert engine.acts == [f"build from {BASE}: {make_image().name}"]
    assert engine.contexts == [{"Dockerfile": b"FROM x"}]


def test_what_another_stack_built_while_this_one_waited_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine()

    @contextmanager
    def another_builds_first() -> Iterator[None]:
        engine.present.add(make_image().name)
        yield

    monkeypatch.setattr(own_image, "one_build", another_builds_first)

    ensure(engine)

    assert engine.acts == []


def test_a_build_that_fails_is_said_with_its_reason() -> None:
    engine = FakeEngine()
    engine.refuses = docker.errors.APIError("no space left on device")

    with pytest.raises(PartFailed, match=r"of the image of a kind failed: no space left"):
        ensure(engine)


class Pushing:
    """Stands for an engine that has the image: keeps what it was asked, and answers a push."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.acts: list[tuple[str, ...]] = []
        self._answers = answers
        self.images = SimpleNamespace(get=self._get, push=self._push)

    def _get(self, name: str) -> Any:
        return SimpleNamespace(tag=lambda repository, tag: self.acts.append(("tag", name, repository, tag)))

    def _push(self, repository: str, *, tag: str, auth_config: dict[str, str], **_: bool) -> Any:
        self.acts.append(("push", repository, tag, auth_config["password"]))
        return iter(self._answers)


def push(engine: Pushing) -> str:
    login, image = {"username": "u", "password": "p"}, make_image()
    return image.push(engine, image.pushed_name(PREFIX), login)  # type: ignore[arg-type]


def test_for_other_machines_it_has_a_name_in_the_registry_by_the_same_content() -> None:
    image = make_image()

    assert image.pushed_name(PREFIX) == f"{PREFIX}/container-training-kind:{image.name.rpartition(':')[2]}"


def test_it_is_pushed_with_the_login_and_named_by_its_digest() -> None:
    engine = Pushing({"status": "Pushed"}, {"aux": {"Tag": "1", "Digest": "sha256:0a", "Size": 1}})

    assert push(engine) == f"{PREFIX}/container-training-kind@sha256:0a"

    repository, _, tag = make_image().pushed_name(PREFIX).rpartition(":")
    assert engine.acts == [("tag", make_image().name, repository, tag), ("push", repository, tag, "p")]


@pytest.mark.parametrize(
    ("last", "why"), [({"error": "denied"}, "denied"), ({}, "the engine did not say its digest")]
)
def test_a_push_that_fails_says_why(last: dict[str, str], why: str) -> None:
    with pytest.raises(PartFailed, match=rf"of the image of a kind .* failed: {why}"):
        push(Pushing({"status": "x"}, last))
