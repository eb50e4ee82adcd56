"""The name that a build context gives its image."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container_training.work.images.build_context import (
    BuildContext,
    content_tag,
    context_hash,
    git_revision,
    open_context,
)
from tests.support.fakes.build_contexts import make_context, packed_names
from training_api.errors import BuildContextMissing
from training_api.job.image_ref import ImageRef


def digest_of(context: BuildContext) -> str:
    return context.pack(io.BytesIO())


names = st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8})?\.py", fullmatch=True)


@given(
    files=st.dictionaries(names, st.text(max_size=50), max_size=6), order=st.randoms(use_true_random=False)
)
def test_the_digest_depends_on_paths_and_contents_only(files: dict[str, str], order: object) -> None:
    shuffled = list(files.items())
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        first = make_context(Path(one), **files)
        second = make_context(Path(other), **dict(shuffled))
        for file in Path(other).rglob("*"):
            os.utime(file, (1, 1))
            file.chmod(0o700 if file.is_dir() else 0o640)

        assert digest_of(first) == digest_of(second)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "task.py").write_text("changed"),
        lambda folder: (folder / "task.py").rename(folder / "renamed.py"),
        lambda folder: (folder / "task.py").chmod(0o755),
        lambda folder: (folder / "empty").mkdir(),
        lambda folder: (folder / "link").symlink_to("task.py"),
        lambda folder: (folder / "Dockerfile").write_text("FROM other\n"),
    ],
    ids=["contents", "name", "executable bit", "folder", "link", "Dockerfile"],
)
def test_each_change_that_reaches_the_image_changes_the_digest(tmp_path: Path, change: object) -> None:
    context = make_context(tmp_path, **{"task.py": "print()"})
    before = digest_of(context)

    change(tmp_path)  # type: ignore[operator]

    assert digest_of(context) != before


def test_what_dockerignore_names_is_left_out_and_does_not_count(tmp_path: Path) -> None:
    ignore = "# comment\n\n*.log\ncache\n!cache/keep.txt\nDockerfile\n"
    context = make_context(
        tmp_path,
        **{".dockerignore": ignore, "a.log": "1", "cache/x": "1", "cache/keep.txt": "1", "task.py": ""},
    )
    before = digest_of(context)

    (tmp_path / "a.log").write_text("2")
    (tmp_path / "cache" / "y").write_text("2")

    assert digest_of(context) == before
    # The Dockerfile is always sent, as the engine needs it.
    assert packed_names(context) == [".dockerignore", "Dockerfile", "cache/keep.txt", "task.py"]


def test_a_socket_is_left_out(tmp_path: Path) -> None:
    context = make_context(tmp_path)
    os.mkfifo(tmp_path / "pipe")

    assert packed_names(context) == ["Dockerfile"]


PARTS = {
    "archive_digest": "a" * 64,
    "dockerfile": "Dockerfile",
    "build_args": {"A": "1"},
    "base_image_ids": {"base": "sha256:1"},
}


@pytest.mark.parametrize(
    "change",
    [
        {"archive_digest": "b" * 64},
        {"dockerfile": "other.Dockerfile"},
        {"build_args": {"A": "2"}},
        {"build_args": {}},
        {"base_image_ids": {"base": "sha256:2"}},
    ],
)
def test_every_part_counts_in_the_context_hash(change: dict[str, object]) -> None:
    assert context_hash(**PARTS) != context_hash(**PARTS | change)  # type: ignore[arg-type]


def test_the_order_of_build_arguments_does_not_count() -> None:
    one = context_hash(**PARTS | {"build_args": {"A": "1", "B": "2"}})  # type: ignore[arg-type]
    other = context_hash(**PARTS | {"build_args": {"B": "2", "A": "1"}})  # type: ignore[arg-type]

    assert one == other


def test_the_tag_is_valid_and_has_sixteen_digits() -> None:
    tag = content_tag(context_hash(**PARTS))  # type: ignore[arg-type]

    assert ImageRef(host="h:1", repository="r", tag=tag).tag == tag
    assert len(tag) == len("ctx-") + 16


def test_empty_build_arguments_are_dropped(tmp_path: Path) -> None:
    make_context(tmp_path)

    context = open_context(tmp_path, build_args={"BASE_IMAGE": "", "EPOCHS": "3"})

    assert context.build_args == {"EPOCHS": "3"}


def test_a_folder_or_dockerfile_that_is_missing_or_outside_is_refused(tmp_path: Path) -> None:
    inside = tmp_path / "context"
    inside.mkdir()
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")

    with pytest.raises(BuildContextMissing, match="context_dir must be a folder"):
        open_context(tmp_path / "nowhere")
    with pytest.raises(
        BuildContextMissing, match=r"must be a file in the build context '.*', got 'Dockerfile'"
    ):
        open_context(inside)
    with pytest.raises(BuildContextMissing, match="must lie inside the build context"):
        open_context(inside, dockerfile="../Dockerfile")


def test_outside_a_checkout_there_is_no_revision(tmp_path: Path) -> None:
    assert git_revision(tmp_path) is None


def test_the_revision_says_when_files_of_the_context_were_changed(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.com"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    folder = tmp_path / "trainer"
    make_context(folder)
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    commit = git("rev-parse", "HEAD")

    clean = git_revision(folder)
    (tmp_path / "beside").write_text("not of the context")
    still_clean = git_revision(folder)
    (folder / "new.py").write_text("")

    assert (clean, still_clean, git_revision(folder)) == (commit, commit, f"{commit}-dirty")
