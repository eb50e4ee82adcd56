"""Building with an engine that is a list of messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker.errors
import pytest
import requests

from container_training.work.images.build_context import BuildContext, open_context
from container_training.work.images.image_builder import build_image
from container_training.work.images.labels import CONTEXT_LABEL
from training_api.errors import (
    BuildFailed,
    DiskFull,
    EngineUnavailable,
    InvalidImageRef,
    RegistryUnavailable,
    TrainingError,
)

#: No registry answers on this port.
NAME = "127.0.0.1:1/p/digits"


class FakeEngine:
    """
    Keeps images by name.

    A build prints ``messages``, and makes the image unless they hold an error.
    """

    def __init__(self, *messages: dict[str, Any], pull: list[dict[str, Any]] | None = None) -> None:
        self.hooks: dict[str, list[Any]] = {"response": []}
        self.kept: dict[str, dict[str, Any]] = {}
        self.builds: list[dict[str, Any]] = []
        self.messages = messages
        self.pull_messages = pull or []

    def inspect_image(self, name: str) -> dict[str, Any]:
        if name not in self.kept:
            raise docker.errors.ImageNotFound("no such image", explanation="No such image")
        return self.kept[name]

    def images(self, name: str) -> list[dict[str, Any]]:
        return [
            {
                "Id": image["Id"],
                "Created": number,
                "RepoTags": [tag],
                "Labels": image.get("Config", {}).get("Labels"),
            }
            for number, (tag, image) in enumerate(self.kept.items())
            if tag.startswith(f"{name}:")
        ]

    def build(self, **arguments: Any) -> Iterator[dict[str, Any]]:
        self.builds.append(arguments)
        yield from self.messages
        if not any("error" in message for message in self.messages):
            self.kept[arguments["tag"]] = {"Id": "sha256:new", "Config": {"Labels": arguments["labels"]}}

    def pull(self, repository: str, *, tag: str, **_: Any) -> Iterator[dict[str, Any]]:
        yield from self.pull_messages
        if not any("error" in message for message in self.pull_messages):
            self.kept[f"{repository}:{tag}"] = {"Id": "sha256:pulled"}


@pytest.fixture
def context(tmp_path: Path) -> BuildContext:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    return open_context(tmp_path)


def build(engine: Any, context: BuildContext, lines: list[str] | None = None) -> Any:
    said = [] if lines is None else lines
    return build_image(engine, context, NAME, on_line=said.append, find_login=lambda host: {})


def stream(text: str) -> dict[str, Any]:
    return {"stream": text}


def test_output_comes_line_by_line_without_colours_and_redrawn_lines(context: BuildContext) -> None:
    engine = FakeEngine(
        stream("Step 1/1 : FROM scratch"), stream("\n"), stream("\x1b[91m10%\r100%\x1b[0m\nlast\n")
    )
    lines: list[str] = []

    build(engine, context, lines)

    assert lines[-3:] == ["Step 1/1 : FROM scratch", "100%", "last"]


def test_an_image_that_is_there_is_not_built_again(context: BuildContext) -> None:
    engine = FakeEngine()
    first = build(engine, context)
    lines: list[str] = []

    second = build(engine, context, lines)

    assert (first.is_reused, second.is_reused) == (False, True)
    assert second.ref == first.ref
    assert len(engine.builds) == 1
    assert lines[0] == f"{first.ref} is on the engine already: nothing is built"
    assert "1 files of the context, Dockerfile among them" in lines[2]
    assert "found as sha256:new, built 20" in lines[-1]


def test_a_build_says_what_changed_since_the_last_one(tmp_path: Path) -> None:
    engine = FakeEngine()
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    first = build(engine, open_context(tmp_path))
    (tmp_path / "task.py").write_text("print()")
    lines: list[str] = []

    build(engine, open_context(tmp_path), lines)

    said = lines.index(f"changed since {first.ref}:")
    assert lines[said + 1] == "task.py is new"


def test_a_tag_that_something_else_made_is_built_over(context: BuildContext) -> None:
    engine = FakeEngine()
    ref = str(build(engine, context).ref)
    engine.kept[ref] = {"Id": "sha256:other", "Config": {"Labels": None}}

    assert not build(engine, context).is_reused
    assert engine.kept[ref]["Config"]["Labels"][CONTEXT_LABEL]


ERROR = {"errorDetail": {"code": 5}, "error": "The command '/bin/sh -c x' returned a non-zero code: 5"}


@pytest.mark.parametrize(
    ("messages", "expected", "text"),
    [
        (
            [stream("Step 1/2 : FROM a\nfirst\nStep 2/2 : RUN x\nsecond\n"), ERROR],
            BuildFailed,
            "Step 2/2 : RUN x exited with 5; its last output:\n    second",
        ),
        (
            [stream("Step 1/1 : COPY a b\n"), {"error": "COPY failed: file not found"}],
            BuildFailed,
            "Step 1/1 : COPY a b failed: COPY failed: file not found",
        ),
        ([{"error": "write /x: no space left on device"}], DiskFull, "no room"),
        ([stream("Step 1/1 : RUN x\ntar: No space left on device\n"), ERROR], DiskFull, "no room"),
    ],
)
def test_an_error_in_the_stream_is_raised_by_name(
    context: BuildContext, messages: list[dict[str, Any]], expected: type[TrainingError], text: str
) -> None:
    with pytest.raises(expected) as caught:
        build(FakeEngine(*messages), context)

    assert text in str(caught.value)


def test_a_name_with_a_tag_is_refused(context: BuildContext) -> None:
    with pytest.raises(InvalidImageRef, match="must have no tag"):
        build_image(FakeEngine(), context, f"{NAME}:1", on_line=print)  # type: ignore[arg-type]


def test_an_engine_that_does_not_answer_is_named(context: BuildContext) -> None:
    class DeadEngine(FakeEngine):
        def inspect_image(self, name: str) -> dict[str, Any]:
            raise requests.ConnectionError("no socket")

    with pytest.raises(EngineUnavailable, match="no socket"):
        build(DeadEngine(), context)


def base_context(folder: Path) -> BuildContext:
    (folder / "Dockerfile").write_text("ARG BASE_IMAGE=python:3.11\nFROM ${BASE_IMAGE}\n")
    return open_context(folder)


def test_the_base_image_is_pulled_and_its_id_decides_the_tag(tmp_path: Path) -> None:
    engine = FakeEngine()
    first = build(engine, base_context(tmp_path))
    engine.kept["python:3.11"] = {"Id": "sha256:newer"}

    second = build(engine, base_context(tmp_path))

    assert first.ref != second.ref


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ('Get "https://x/v2/": dial tcp: lookup x: no such host', RegistryUnavailable),
        ("manifest for python:3.11 not found: manifest unknown", BuildFailed),
        ("write /var/lib/docker: no space left on device", DiskFull),
    ],
)
def test_a_base_image_that_cannot_be_pulled_is_named(
    tmp_path: Path, reason: str, expected: type[TrainingError]
) -> None:
    with pytest.raises(expected, match=r"python:3\.11|no space left"):
        build(FakeEngine(pull=[{"error": reason}]), base_context(tmp_path))
