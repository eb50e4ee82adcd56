"""Job files on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from container_training.work.submission.job_file_reader import MAX_BYTES, load_job_file
from training_api.errors import InvalidJobSpec


@pytest.mark.parametrize("content", ["jobId: ä\n".encode(), b"\xef\xbb\xbfjobId: \xc3\xa4\r\n"])
def test_a_file_is_utf_8_with_or_without_a_mark(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(content)

    assert load_job_file(path) == {"jobId": "ä"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"jobId: a\nlabels: \xff", "2: must be UTF-8, got the byte 0xff"),
        (b" " * (MAX_BYTES + 1), " must be at most 1 MiB"),
        (b"nmae: a", "1: unknown key"),
        (None, " no such file"),
    ],
    ids=["no UTF-8", "too large", "unknown key", "missing"],
)
def test_a_refused_file_is_named_with_its_path(tmp_path: Path, content: bytes | None, expected: str) -> None:
    path = tmp_path / "config.yaml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(InvalidJobSpec) as refused:
        load_job_file(path)

    (violation,) = refused.value.violations
    assert violation.description == f"{path}:{expected}"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobSpec, match="cannot be read: Is a directory"):
        load_job_file(tmp_path)
