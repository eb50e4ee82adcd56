"""What a Dockerfile starts from."""

from __future__ import annotations

import pytest

from container_training.work.images.dockerfile import base_images


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
