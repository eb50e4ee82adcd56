"""When BuildKit is used, finding a command line for it, reading its output, hiding secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from container_training.work.images.builders.build_order import BuildSession
from container_training.work.images.builders.builder import Builder, is_buildkit, parse_builder
from container_training.work.images.builders.buildkit_output import BuildkitOutput
from container_training.work.images.builders.docker_cli import find_buildkit_cli
from container_training.work.images.builders.redaction import Redaction
from container_training.work.images.dockerfile import base_images, buildkit_needs
from training_api.errors import (
    BuildFailed,
    BuildKitMissing,
    DiskFull,
    EngineUnavailable,
    InvalidRequest,
    RegistryUnavailable,
    TrainingError,
)


@pytest.mark.parametrize(
    ("dockerfile", "needs"),
    [
        ("FROM a\nRUN echo --mount=type=cache\nCOPY b /link\n", ()),
        ("FROM a\nRUN --mount=type=secret,id=x true\n", ("RUN --mount",)),
        (
            "FROM a\nRUN \\\n  --network=none \\\n  --mount=type=cache,target=/c true\n",
            ("RUN --mount", "RUN --network"),
        ),
        ("# syntax=docker/dockerfile:1\nFROM a\n", ("# syntax",)),
        ("# escape=`\n# syntax = docker/dockerfile:1\nFROM a\n", ("# syntax",)),
        ("# a comment\n# syntax=docker/dockerfile:1\nFROM a\n", ()),
        ("FROM a\nCOPY --from=b --chmod=755 c /d\n", ("COPY --chmod",)),
        (
            "FROM a\nCOPY --link c /d\nADD --checksum=sha256:1 https://x/y /z\n",
            ("COPY --link", "ADD --checksum"),
        ),
        ("FROM a\nRUN <<EOF\necho 1\nEOF\n", ("RUN <<",)),
        ("FROM a\nRUN python -c 'print(1 <<x)'\n", ()),
    ],
)
def test_what_only_buildkit_can_do_is_found(dockerfile: str, needs: tuple[str, ...]) -> None:
    assert buildkit_needs(dockerfile) == needs


def test_images_that_are_mounted_count_as_images_that_are_copied_from() -> None:
    text = "FROM a AS one\nRUN --mount=type=bind,from=b,target=/b --mount=from=one,target=/c true\n"

    assert base_images(text, {}) == ("a", "b")


def test_the_builder_is_the_classic_one_unless_something_needs_the_other() -> None:
    assert [is_buildkit(Builder.AUTO, needs) for needs in ([], ["RUN --mount"])] == [False, True]
    assert is_buildkit(parse_builder("buildkit"), [])
    with pytest.raises(BuildKitMissing, match="the classic builder knows no RUN --mount"):
        is_buildkit(Builder.CLASSIC, ["RUN --mount"])
    with pytest.raises(InvalidRequest, match="builder: must be one of auto, classic, buildkit, got 'kaniko'"):
        parse_builder("kaniko")


def make_docker(folder: Path, version: str, *, has_buildx: bool = False) -> Path:
    folder.mkdir()
    program = folder / "docker"
    buildx = "echo github.com/docker/buildx v0.12.1" if has_buildx else "exit 1"
    program.write_text(
        f'#!/bin/sh\ncase "$1" in --version) echo "Docker version {version}, build abc";; buildx) {buildx};; esac\n'
    )
    program.chmod(0o755)
    return program


def test_a_command_line_without_the_plugin_is_passed_over(tmp_path: Path) -> None:
    make_docker(tmp_path / "new", "28.2.2")
    old = make_docker(tmp_path / "old", "20.10.24+dfsg1")
    plugin = make_docker(tmp_path / "plugin", "28.2.2", has_buildx=True)

    assert find_buildkit_cli(f"{tmp_path / 'new'}:{tmp_path / 'old'}") == str(old)
    assert find_buildkit_cli(f"{tmp_path / 'new'}:{tmp_path / 'plugin'}:{tmp_path / 'old'}") == str(plugin)


def test_a_machine_without_one_is_told_what_was_found(tmp_path: Path) -> None:
    new = make_docker(tmp_path / "new", "28.2.2")

    with pytest.raises(BuildKitMissing) as caught:
        find_buildkit_cli(f"{tmp_path / 'new'}:{tmp_path / 'nowhere'}")

    assert f"{new} (Docker version 28.2) lacks the plugin buildx; install docker-buildx-plugin" in str(
        caught.value
    )


#: Of docker 20.10, and of a newer one with buildx.
OLD = """\
#4 [one 1/2] FROM docker.io/library/base
#4 sha256:1ef1236410a266f3e4c35927905ec7e0dedc80ececaa633bff440ccc0cae4f24
#4 CACHED

#5 [one 2/2] RUN false
#5 sha256:a4bfde8d76da8d64e3234ed033599e5af89442d2bc2d8f29fbb77533ae01c945
#5 0.335 first
#5 0.340 second
#5 ERROR: executor failed running [/bin/sh -c false]: exit code: 7
------
 > [one 2/2] RUN false:
------
executor failed running [/bin/sh -c false]: exit code: 7
"""
NEW = """\
#0 building with "default" instance using docker driver

#5 [2/3] RUN false
#5 0.335 first
#6 [other 1/1] RUN true
#5 0.340 second
#6 0.400 not of the failed step
#5 ERROR: process "/bin/sh -c false" did not complete successfully: exit code: 7
------
 > [2/3] RUN false:
0.335 first
0.340 second
------
Dockerfile:2
--------------------
ERROR: failed to solve: process "/bin/sh -c false" did not complete successfully: exit code: 7
"""


def read(text: str) -> tuple[list[str], TrainingError]:
    lines: list[str] = []
    output = BuildkitOutput(lines.append)
    for line in text.splitlines(keepends=True):
        output.read(line)
    return lines, output.error(1)


@pytest.mark.parametrize(("text", "name"), [(OLD, "[one 2/2]"), (NEW, "[2/3]")], ids=["20.10", "buildx"])
def test_the_failed_step_is_named_with_its_own_output(text: str, name: str) -> None:
    lines, error = read(text)

    assert isinstance(error, BuildFailed)
    assert str(error) == f"{name} RUN false exited with 7; its last output:\n    first\n    second"
    assert "#5 first" in lines
    assert not [line for line in lines if "sha256:" in line or line.startswith(("---", " > "))]


@pytest.mark.parametrize(
    ("text", "expected", "message"),
    [
        (
            "Cannot connect to the Docker daemon at unix:///x. Is it running?\n",
            EngineUnavailable,
            "did not answer",
        ),
        (
            "ERROR: BuildKit is enabled but the buildx component is missing or broken.\n",
            BuildKitMissing,
            "buildx",
        ),
        (
            "#3 [2/2] RUN x\n#3 0.1 tar: no space left on device\n#3 ERROR: y: exit code: 2\n",
            DiskFull,
            "no room",
        ),
        (
            "#3 [internal] load metadata for h/i:1\n#3 ERROR: failed to do request: dial tcp: i/o timeout\n",
            RegistryUnavailable,
            "load metadata",
        ),
        ("#3 [2/2] RUN pip\n#3 ERROR: x: connection refused: exit code: 1\n", BuildFailed, "exited with 1"),
        ("failed to solve: Dockerfile parse error line 1: unknown instruction: FORM\n", BuildFailed, "FORM"),
        ("", BuildFailed, "docker build exited with 1"),
    ],
)
def test_other_ends_are_named(text: str, expected: type[TrainingError], message: str) -> None:
    _, error = read(text)

    assert type(error) is expected
    assert message in str(error)


def test_a_secret_and_its_lines_are_hidden() -> None:
    hide = Redaction([b"-----BEGIN-----\nabcdefgh\nij\n", b"token", b"token-and-more", b"\n"])

    assert hide("say token-and-more: token, abcdefgh, ij") == "say ***: ***, ***, ij"
    assert hide("nothing of it") == "nothing of it"


@pytest.mark.parametrize("id_", ["a,src=/etc/shadow", "a=b", "", "-x"])
def test_an_id_that_would_say_more_to_the_command_line_is_refused(id_: str) -> None:
    with pytest.raises(InvalidRequest, match="ids of secrets and SSH agents must be letters"):
        BuildSession(secret_ids=(id_,))
    with pytest.raises(InvalidRequest):
        BuildSession(ssh={id_: ""})
