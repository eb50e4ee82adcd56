"""What an image is made of, in its label, and what changed between two."""

from __future__ import annotations

from typing import Any

from container_training.work.images.parts import MAX_LABEL_BYTES, ImageParts, image_parts, part_changes


def make_parts(**changes: Any) -> ImageParts:
    given: dict[str, Any] = {
        "dockerfile": "Dockerfile",
        "files": {"Dockerfile": "a" * 64, "task.py": "b" * 64},
        "build_args": {"BASE_IMAGE": "python:3"},
        "base_image_ids": {"python:3": "sha256:" + "c" * 64},
    }
    return image_parts(**(given | changes))


def test_the_same_parts_have_no_changes() -> None:
    assert part_changes(make_parts(), make_parts()) == []


def test_each_change_is_named_by_its_part() -> None:
    after = make_parts(
        dockerfile="Dockerfile-gpu",
        files={"Dockerfile": "a" * 64, "task.py": "e" * 64, "data.py": "f" * 64},
        build_args={"EPOCHS": "3"},
        base_image_ids={"python:3": "sha256:" + "d" * 64},
    )

    assert part_changes(make_parts(), after) == [
        "the Dockerfile is Dockerfile-gpu, was Dockerfile",
        "data.py is new",
        "task.py changed",
        "build argument BASE_IMAGE is gone",
        "build argument EPOCHS is new",
        "base image python:3 changed",
    ]


def test_of_many_files_ten_are_named() -> None:
    many = make_parts(files={f"{number:02}.py": "a" * 64 for number in range(15)})

    changes = part_changes(make_parts(files={}), many)

    assert (len(changes), changes[-1]) == (11, "and 5 files more")


def test_the_label_holds_the_parts_and_no_value_of_a_build_argument() -> None:
    parts = make_parts(build_args={"TOKEN": "hunter2"})

    assert ImageParts.from_label(parts.to_label()) == parts
    assert "hunter2" not in parts.to_label()


def test_a_label_that_would_be_too_long_leaves_the_files_out() -> None:
    parts = make_parts(files={f"{number}.py": "a" * 64 for number in range(5000)})

    read = ImageParts.from_label(parts.to_label())

    assert len(parts.to_label()) <= MAX_LABEL_BYTES
    assert read is not None
    assert read.files is None
    assert part_changes(read, parts) == ["files: not known, there are too many to remember"]


def test_a_label_of_somebody_else_is_nothing() -> None:
    assert [ImageParts.from_label(text) for text in (None, "", "{}", "[]", "x", '{"dockerfile": 1}')] == [
        None
    ] * 6
