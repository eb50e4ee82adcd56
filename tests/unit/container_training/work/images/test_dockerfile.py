"""What a Dockerfile starts from, and what it needs of a builder."""

from __future__ import annotations

import pytest

from container_training.work.images.dockerfile import base_images, buildkit_needs, declares_argument


@pytest.mark.parametrize(
    ("text", "build_args", "expected"),
    [
        ("FROM python:3.11\n", {}, ("python:3.11",)),
        ("from python:3.11 as build\nFROM build\n", {}, ("python:3.11",)),
        ("FROM --platform=linux/amd64 a/b@sha256:1 AS x\n", {}, ("a/b@sha256:1",)),
        ("FROM scratch\n", {}, ()),
        ("ARG BASE=python:3.11\nFROM ${BASE}\n", {}, ("python:3.11",)),
        ('ARG BASE="python:3.11"\nFROM $BASE\n', {"BASE": "mine"}, ("mine",)),
        ("ARG TAG=1 NAME=a\nFROM ${NAME}:${TAG}\n", {"TAG": "2"}, ("a:2",)),
        ("ARG A\nARG B=${A}-x\nFROM $B\n", {"A": "1"}, ("1-x",)),
        ("ARG TAG\nFROM a:${TAG:-1}\nFROM b${TAG:+:t}\n", {}, ("a:1", "b")),
        ("FROM a\nARG B=b\nFROM ${B}\n", {"B": "b"}, ("a",)),
        (
            "FROM a AS one\nFROM b\nCOPY --from=one x y\nCOPY --from=0 x y\nCOPY --from=c x y\n",
            {},
            ("a", "b", "c"),
        ),
        ("# FROM a\nFROM \\\n  b\nRUN echo FROM c\n", {}, ("b",)),
        ("FROM a\nFROM a\n", {}, ("a",)),
        ("", {}, ()),
    ],
)
def test_base_images_are_found(text: str, build_args: dict[str, str], expected: tuple[str, ...]) -> None:
    assert base_images(text, build_args) == expected


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ARG BASE_IMAGE=python:3.11\nFROM ${BASE_IMAGE}\n", True),
        ("ARG A=1 BASE_IMAGE\nFROM x\n", True),
        ("FROM x\narg BASE_IMAGE\n", True),
        ("FROM x\nENV BASE_IMAGE=1\n", False),
        ("ARG MY_BASE_IMAGE\nARG A=BASE_IMAGE\nFROM x\n", False),
    ],
)
def test_declared_arguments_are_found(text: str, expected: bool) -> None:
    assert declares_argument(text, "BASE_IMAGE") is expected
