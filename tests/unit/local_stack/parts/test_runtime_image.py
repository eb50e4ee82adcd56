"""The image of the runtime versions: named by its content, and built once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest

from local_stack.errors import PartFailed
from local_stack.parts import runtime_image
from local_stack.parts.runtime_image import (
    ensure_runtime_image,
    image_aliases,
    push_runtime_image,
    pushed_name,
    runtime_image_name,
    runtime_images,
)
from local_stack.processes.progress import Progress
from tests.support.fakes.stack_workshop import FakeEngine

BASE = "python:3.11-slim"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the image is made from."""
    (tmp_path / "Dockerfile").write_text("FROM x")
    (tmp_path / "run_package.py").write_text("print(1)")
    (tmp_path / "__pycache__").mkdir()
    monkeypatch.setattr(runtime_image, "DOCKERFILE", tmp_path / "Dockerfile")
    monkeypatch.setattr(runtime_image, "LAUNCHER", tmp_path)
    return tmp_path


def ensure(engine: FakeEngine) -> None:
    ensure_runtime_image(engine, BASE, Progress(quiet=True))  # type: ignore[arg-type]


def test_another_base_or_another_file_is_another_image(folder: Path) -> None:
    names = [runtime_image_name(BASE), runtime_image_name("python:3.12")]
    (folder / "run_package.py").write_text("print(2)")
    names.append(runtime_image_name(BASE))
    (folder / "run_package.py").rename(folder / "other.py")
    names.append(runtime_image_name(BASE))

    assert len(set(names)) == 4
    assert all(name.startswith("localhost/container-training/runtime:") for name in names)


def test_every_runtime_version_is_that_image() -> None:
    images = runtime_images(BASE)

    assert {"1.15", "2.1", "2.11"} <= set(images)
    assert set(images.values()) == {runtime_image_name(BASE)}


def test_the_image_is_built_from_its_folder_and_not_a_second_time(folder: Path) -> None:
    engine = FakeEngine()

    ensure(engine)
    ensure(engine)

    assert engine.acts == [f"build from {BASE}: {runtime_image_name(BASE)}"]
    assert engine.contexts == [{"Dockerfile": b"FROM x", "run_package.py": b"print(1)"}]


def test_what_another_stack_built_while_this_one_waited_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine()

    @contextmanager
    def another_builds_first() -> Iterator[None]:
        engine.present.add(runtime_image_name(BASE))
        yield

    monkeypatch.setattr(runtime_image, "one_build", another_builds_first)

    ensure(engine)

    assert engine.acts == []


def test_a_build_that_fails_is_said_with_its_reason() -> None:
    engine = FakeEngine()
    engine.refuses = docker.errors.APIError("no space left on device")

    with pytest.raises(PartFailed, match=r"of the runtime image failed: no space left"):
        ensure(engine)


class Pushing:
    """Stands for an engine that has the image: keeps what it was asked, and answers a push."""

    def __init__(self, *answers: dict[str, str]) -> None:
        self.acts: list[tuple[str, ...]] = []
        self._answers = answers
        self.images = SimpleNamespace(get=self._get, push=self._push)

    def _get(self, name: str) -> Any:
        return SimpleNamespace(tag=lambda repository, tag: self.acts.append(("tag", name, repository, tag)))

    def _push(self, repository: str, *, tag: str, auth_config: dict[str, str], **_: bool) -> Any:
        self.acts.append(("push", repository, tag, auth_config["password"]))
        return iter(self._answers)


PUSHED = "10.0.0.5:5000/demo-project"


def push(engine: Pushing) -> None:
    login = {"username": "u", "password": "p"}
    push_runtime_image(engine, BASE, pushed_name(BASE, PUSHED), login)  # type: ignore[arg-type]


def test_for_other_machines_it_has_a_name_in_the_registry_by_the_same_content() -> None:
    name = pushed_name(BASE, PUSHED)
    tag = runtime_image_name(BASE).rpartition(":")[2]

    assert name == f"{PUSHED}/container-training-runtime:{tag}"
    assert set(runtime_images(BASE, name).values()) == set(image_aliases(BASE, name).values()) == {name}


def test_it_is_pushed_with_the_login() -> None:
    engine = Pushing({"status": "Pushed"})

    push(engine)

    repository, _, tag = pushed_name(BASE, PUSHED).rpartition(":")
    assert engine.acts == [
        ("tag", runtime_image_name(BASE), repository, tag),
        ("push", repository, tag, "p"),
    ]


def test_a_push_that_is_refused_says_why() -> None:
    with pytest.raises(PartFailed, match=r"of the runtime image .* failed: denied"):
        push(Pushing({"status": "x"}, {"error": "denied"}))
