"""Building with a remote builder, by a docker that writes down how it was called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from container_training.work.images.build_context import BuildContext, open_context
from container_training.work.images.builders.build_order import BuildSession
from container_training.work.images.builders.remote_builder import RemoteBuilder
from container_training.work.images.image_builder import BuiltImage
from container_training.work.images.remote_build import build_remotely
from tests.support.fakes.docker_program import CONFIGURATION, PUSHED, DockerProgram, put_on_path
from tests.support.fakes.fake_registry import FakeRegistry, configuration_digest
from training_api.errors import BuildFailed, InvalidImageRef

NAME = "registry.example/p/digits"
BUILDER = RemoteBuilder(name="shared")


@pytest.fixture
def images(registries: FakeRegistry) -> FakeRegistry:
    """What the registry has: a base image, and what a test puts there."""
    registries.images["p/base:1"] = {}
    return registries


@pytest.fixture
def context(tmp_path: Path) -> BuildContext:
    folder = tmp_path / "context"
    folder.mkdir()
    (folder / "Dockerfile").write_text(
        "FROM registry.example/p/base:1\nRUN --mount=type=secret,id=token true\n"
    )
    return open_context(folder, build_args={"A": "1"})


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DockerProgram:
    return put_on_path(tmp_path / "bin", monkeypatch)


def build(context: BuildContext, lines: list[str] | None = None, **arguments: Any) -> BuiltImage:
    said = [] if lines is None else lines
    options = {"on_line": said.append, "find_login": lambda host: {}, **arguments}
    return build_remotely(context, NAME, BUILDER, **options)


def test_the_builder_pushes_and_says_what(
    context: BuildContext, images: FakeRegistry, program: DockerProgram
) -> None:
    session = BuildSession(
        secret_ids=("token",), read_secrets=lambda: {"token": b"correct-horse"}, ssh={"default": "/key"}
    )

    built = build(context, session=session, network_mode="host", labels={"team": "vision"})

    (call,) = program.calls()
    arguments = call["arguments"]
    assert built.ref.digest == PUSHED
    assert (built.image_id, built.is_reused) == (CONFIGURATION, False)
    assert arguments[:8] == [
        *("buildx", "build", "--builder", "shared", "--output", "type=registry", "--allow", "network.host")
    ]
    for option, value in [
        ("--tag", f"{NAME}:{built.ref.tag}"),
        ("--build-arg", "A=1"),
        ("--label", "team=vision"),
        ("--network", "host"),
        ("--ssh", "default=/key"),
    ]:
        assert value in [arguments[place + 1] for place, word in enumerate(arguments) if word == option]
    assert arguments[-1] == "-"
    assert call["secrets"] == ["correct-horse"]
    assert "correct-horse" not in " ".join(arguments)
    assert call["environment"]["BUILDX_NO_DEFAULT_ATTESTATIONS"] == "1"


def test_what_the_registry_has_is_neither_built_nor_pushed(
    context: BuildContext, images: FakeRegistry, program: DockerProgram
) -> None:
    first = build(context)
    label = next(
        word for word in program.calls()[0]["arguments"] if word.startswith("container-training.context=")
    )
    configuration = {
        "config": {"Labels": dict([label.split("=", 1)])},
        "created": "2026-01-01T00:00:00Z",
    }
    images.images[f"p/digits:{first.ref.tag}"] = configuration
    lines: list[str] = []

    again = build(context, lines)

    assert (again.ref, again.is_reused) == (first.ref, True)
    assert again.image_id == configuration_digest(configuration)
    assert len(program.calls()) == 1
    assert lines[0] == f"registry registry.example has {NAME}:{first.ref.tag}: nothing is built"
    assert "built 2026-01-01T00:00:00Z" in lines[-1]


def test_another_image_under_the_tag_is_not_used(
    context: BuildContext, images: FakeRegistry, program: DockerProgram
) -> None:
    first = build(context)
    images.images[f"p/digits:{first.ref.tag}"] = {
        "config": {"Labels": {"container-training.context": "other"}}
    }
    lines: list[str] = []

    again = build(context, lines)

    assert not again.is_reused
    assert "was not built from this content, and is not used" in lines[0]


@pytest.mark.parametrize("metadata", ["", "[]", "{}"])
def test_a_builder_that_does_not_say_what_it_pushed_has_failed(
    context: BuildContext,
    images: FakeRegistry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    metadata: str,
) -> None:
    put_on_path(tmp_path / "bin", monkeypatch, metadata=metadata)

    with pytest.raises(BuildFailed, match="buildx did not say what it has pushed"):
        build(context)


def test_output_is_shown_without_secrets_and_a_failed_step_is_named(
    context: BuildContext, images: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = (
        "print('#5 [2/2] RUN x\\n#5 0.1 correct-horse\\n#5 ERROR: process did not complete: exit code: 7')\n"
        "sys.exit(1)"
    )
    put_on_path(tmp_path / "bin", monkeypatch, then=output)
    lines: list[str] = []
    session = BuildSession(secret_ids=("token",), read_secrets=lambda: {"token": b"correct-horse"})

    with pytest.raises(BuildFailed) as caught:
        build(context, lines, session=session)

    assert str(caught.value) == "[2/2] RUN x exited with 7; its last output:\n    ***"
    assert "#5 ***" in lines


def test_an_image_without_a_registry_is_refused(context: BuildContext, program: DockerProgram) -> None:
    with pytest.raises(
        InvalidImageRef, match="'localhost/digits' must be at a registry, to which a remote builder"
    ):
        build_remotely(context, "localhost/digits", BUILDER, on_line=lambda line: None)
    assert program.calls() == []
