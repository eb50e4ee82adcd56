"""One build of an image at a time, whatever temporary folders the tasks have."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from container_training.work.images import build_lock
from container_training.work.images.build_lock import one_build_of
from container_training.work.images.engine import Cancellation
from tests.support.waiting import wait_until
from training_api.errors import BuildFailed
from training_api.job.image_ref import ImageRef, parse_image_ref

HOLDER = """
import sys
from container_training.work.images.build_lock import one_build_of
from container_training.work.images.engine import Cancellation
from training_api.job.image_ref import parse_image_ref
with one_build_of(parse_image_ref(sys.argv[1]), Cancellation(), print):
    print("builds", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def ref() -> ImageRef:
    return parse_image_ref(f"localhost/test-{uuid.uuid4().hex}:1")


@contextmanager
def building(ref: ImageRef) -> Iterator[None]:
    """Another process that builds the image until the block ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(ref)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "builds\n"
        try:
            yield
        finally:
            process.communicate()  # its input ends, and so does it


def test_a_process_with_another_temporary_folder_waits_and_no_file_is_left(
    ref: ImageRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    lines: list[str] = []
    has_built = threading.Event()

    def build() -> None:
        with one_build_of(ref, Cancellation(), lines.append):
            has_built.set()

    second = threading.Thread(target=build)
    with building(ref):
        second.start()
        wait_until(lambda: lines, "the second waits")
        assert lines == [f"another task is building {ref}; waiting for it"]
        assert not has_built.is_set()
    second.join()

    assert has_built.is_set()
    assert not build_lock._lock_file(ref).exists()


def test_a_wait_that_is_cancelled_ends(ref: ImageRef) -> None:
    cancelled = Cancellation()
    cancelled.cancel()

    with (
        building(ref),
        pytest.raises(BuildFailed, match="the build was cancelled"),
        one_build_of(ref, cancelled, lambda line: None),
    ):
        pass


def test_without_a_folder_for_locks_it_builds_and_says_so(
    ref: ImageRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_lock, "_FOLDER", tmp_path / "file" / "below")
    (tmp_path / "file").write_text("no folder")
    lines: list[str] = []

    with one_build_of(ref, Cancellation(), lines.append):
        pass

    assert lines[0].startswith("building without a lock against a second build of the same image: ")
