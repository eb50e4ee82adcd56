"""What an ignore file leaves out of a build context, as docker reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from container_training.work.images.ignore_file import ignore_patterns
from tests.support.fakes.build_contexts import make_context, packed_names
from training_api.errors import BuildContextMissing


def test_the_dockerfiles_own_ignore_file_takes_the_place_of_the_folders(tmp_path: Path) -> None:
    files = {".dockerignore": "a.txt\n", "Dockerfile.dockerignore": "b.txt\n", "a.txt": "", "b.txt": ""}

    context = make_context(tmp_path, **files)

    assert packed_names(context) == [".dockerignore", "Dockerfile", "Dockerfile.dockerignore", "a.txt"]


@pytest.mark.parametrize(
    ("line", "left_out"),
    [
        ("[^a].log", {"b.log", "*.log"}),
        ("[a-b].log", {"a.log", "b.log"}),
        (r"a\.log", {"a.log"}),
        (r"\*.log", {"*.log"}),
        (r"\#x", {"#x"}),
        (" #x", {"#x"}),
        ("#x", set()),
    ],
)
def test_patterns_mean_what_they_mean_to_docker(tmp_path: Path, line: str, left_out: set[str]) -> None:
    files = {"a.log", "b.log", "*.log", "#x"}
    context = make_context(tmp_path, **{".dockerignore": f"{line}\n"}, **dict.fromkeys(files, ""))

    assert files - set(packed_names(context)) == left_out


def test_an_exclamation_mark_alone_is_refused(tmp_path: Path) -> None:
    context = make_context(tmp_path, **{".dockerignore": "a\n!\n"})

    with pytest.raises(BuildContextMissing, match=r"\.dockerignore: '!' must be followed by a pattern"):
        packed_names(context)


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("", []),
        ("# a comment\n\n  \n*.log\r\n", ["*.log"]),
        ("! keep.txt\n", ["!keep.txt"]),
        ("\ufeffdata\n", ["data"]),
        ("[^a-c]\\*\n", ["[!a-c][*]"]),
    ],
)
def test_a_line_is_a_pattern(tmp_path: Path, text: str, patterns: list[str]) -> None:
    (tmp_path / ".dockerignore").write_text(text, encoding="utf-8")

    assert ignore_patterns(tmp_path, "Dockerfile") == patterns


def test_without_a_file_nothing_is_left_out(tmp_path: Path) -> None:
    assert ignore_patterns(tmp_path, "Dockerfile") == []


def test_the_ignore_file_of_another_dockerfile_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "gpu.Dockerfile.dockerignore").write_text("a\n")
    (tmp_path / ".dockerignore").write_text("b\n")

    assert ignore_patterns(tmp_path, "Dockerfile") == ["b"]
    assert ignore_patterns(tmp_path, "gpu.Dockerfile") == ["a"]
