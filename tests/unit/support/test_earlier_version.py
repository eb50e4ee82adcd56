"""An earlier version is found in any clone, and without one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.earlier_version import has_commit, unpack_earlier_version


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Three commits: without the stack of Compose, with it, and today's."""
    folder = tmp_path / "repository"
    (folder / "docker").mkdir(parents=True)
    git(folder, "init", "--quiet")
    for content in ("first", "with the stack", "today"):
        (folder / "code.py").write_text(content)
        if content != "first":
            (folder / "docker" / "compose.yaml").touch()
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", content)
    return folder


def unpacked(repository: Path, commit: str) -> tuple[str, str]:
    """Return which version it is, and what is in it."""
    folder = repository.parent / "earlier"
    which = unpack_earlier_version(repository, commit, folder)
    assert not (folder / ".git").exists()
    return which, (folder / "code.py").read_text()


def test_a_whole_clone_has_the_commit(repository: Path) -> None:
    commit = git(repository, "rev-parse", "--short", "HEAD~2")

    assert has_commit(repository, commit)
    assert unpacked(repository, commit) == (f"commit {commit}", "first")


def test_without_the_commit_it_is_the_oldest_that_has_the_stack(repository: Path) -> None:
    assert not has_commit(repository, "ebb3185")
    which, content = unpacked(repository, "ebb3185")

    assert content == "with the stack"
    assert which.endswith("ebb3185 is not in this clone")


def test_a_shallow_clone_has_its_oldest_commit(repository: Path) -> None:
    clone = repository.parent / "clone"
    git(repository.parent, "clone", "--quiet", "--depth=1", repository.as_uri(), str(clone))
    commit = git(repository, "rev-parse", "HEAD~1")

    which, content = unpacked(clone, commit)

    assert content == "today"
    assert which.startswith(f"commit {git(clone, 'rev-parse', '--short', 'HEAD')}")


def test_files_without_a_history_stand_for_themselves(repository: Path) -> None:
    (repository / ".git").rename(repository.parent / "history")

    assert unpacked(repository, "ebb3185") == ("these files: there is no history", "today")
