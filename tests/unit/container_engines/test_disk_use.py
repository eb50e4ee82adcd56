"""What lies below folders, however they are nested, and when counting ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from container_engines.disk_use import DiskUse, FolderHidden, use_of_folders

MIB = 2**20
NO_LIMIT = DiskUse(bytes=0, files=0)


def test_all_folders_are_counted_together_with_themselves(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "file").write_bytes(os.urandom(MIB))

    use = use_of_folders([tmp_path / "a", tmp_path / "b"], NO_LIMIT)

    assert use.files == 6
    assert 2 * MIB <= use.bytes < 3 * MIB


def test_a_hole_takes_no_disk(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(2**40)

    assert use_of_folders([tmp_path], NO_LIMIT).bytes < MIB


def test_folders_deeper_than_a_path_can_be_long_are_counted(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(50):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    with open(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here), "wb") as file:  # noqa: PTH123  # a descriptor
        file.write(os.urandom(MIB))
    os.close(here)

    use = use_of_folders([tmp_path], NO_LIMIT)

    assert use.files == 52
    assert use.bytes >= MIB


@pytest.mark.parametrize("most", [DiskUse(bytes=MIB, files=0), DiskUse(bytes=0, files=10)])
def test_counting_ends_beyond_the_limit(tmp_path: Path, most: DiskUse) -> None:
    for number in range(200):
        (tmp_path / str(number)).write_bytes(os.urandom(MIB // 10))

    use = use_of_folders([tmp_path], most)

    assert use.exceeds(most)
    assert (use.files or 0) < 30


def test_what_is_gone_counts_nothing(tmp_path: Path) -> None:
    assert use_of_folders([tmp_path / "gone"], NO_LIMIT) == DiskUse(bytes=0, files=0)


def test_a_folder_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root, which tests may run as, reads all folders.
    find = tmp_path / "find"
    find.write_text("#!/bin/sh\necho 8\nexit 1\n", encoding="utf-8")
    find.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    with pytest.raises(FolderHidden):
        use_of_folders([tmp_path], NO_LIMIT)


@pytest.mark.parametrize(
    ("use", "most", "exceeds"),
    [
        (DiskUse(bytes=2, files=2), DiskUse(bytes=2, files=2), False),
        (DiskUse(bytes=3, files=2), DiskUse(bytes=2, files=2), True),
        (DiskUse(bytes=2, files=3), DiskUse(bytes=2, files=2), True),
        (DiskUse(bytes=3), DiskUse(bytes=2, files=2), True),
        (DiskUse(bytes=2), DiskUse(bytes=2, files=1), False),
        (DiskUse(bytes=9, files=9), DiskUse(bytes=0, files=0), False),
    ],
)
def test_more_than_the_limit_is_too_much(use: DiskUse, most: DiskUse, exceeds: bool) -> None:
    assert use.exceeds(most) is exceeds
