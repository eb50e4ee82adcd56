"""What of a trainer's folder is copied to be built, and which folders are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from container_training.work.packages import source as package_source
from container_training.work.packages.source import copy_project
from training_api.errors import PackageInvalid


def write(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    return folder


def copied(package_path: Path, target: Path) -> list[str]:
    """Return what was copied, as paths below ``target``."""
    target.mkdir()
    copy_project(package_path, target)
    return sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write(tmp_path / "project", "trainer/__init__.py", "trainer/task.py", "notes.txt")


def test_a_package_gets_a_setup_py_of_its_name_and_nothing_from_beside_it(
    project: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"

    assert copied(project / "trainer", target) == ["setup.py", "trainer/__init__.py", "trainer/task.py"]
    assert "name='trainer'" in (target / "setup.py").read_text()
    assert not (project / "setup.py").exists()


def test_a_package_belongs_to_the_setup_py_beside_it(project: Path, tmp_path: Path) -> None:
    write(project, "setup.py", "build/lib/old.py", "dist/old.tar.gz")

    found = copied(project / "trainer", tmp_path / "target")

    assert found == ["notes.txt", "setup.py", "trainer/__init__.py", "trainer/task.py"]


@pytest.mark.parametrize("name", ["setup.py", "pyproject.toml"])
def test_a_project_is_taken_as_it_is(project: Path, tmp_path: Path, name: str) -> None:
    write(project, name)

    assert copied(project, tmp_path / "target") == [
        *sorted(["notes.txt", name]),
        "trainer/__init__.py",
        "trainer/task.py",
    ]


def test_what_tools_leave_behind_is_left_out(project: Path, tmp_path: Path) -> None:
    write(
        project / "trainer",
        "__pycache__/task.pyc",
        ".git/config",
        "old.pyc",
        "trainer.egg-info/PKG-INFO",
        "a.json",
    )

    found = copied(project / "trainer", tmp_path / "target")

    assert found == ["setup.py", "trainer/__init__.py", "trainer/a.json", "trainer/task.py"]


def test_a_folder_that_is_not_there_is_named_with_where_relative_paths_start(tmp_path: Path) -> None:
    with pytest.raises(
        PackageInvalid, match="package_path must be a folder, got 'nowhere'; a relative path starts"
    ):
        copied(Path("nowhere"), tmp_path / "target")


def test_a_folder_without_an_init_is_no_package(tmp_path: Path) -> None:
    write(tmp_path / "trainer", "task.py")

    with pytest.raises(PackageInvalid, match=r"must have an __init__\.py, a setup\.py or a pyproject\.toml"):
        copied(tmp_path / "trainer", tmp_path / "target")


@pytest.mark.parametrize(
    ("name", "why"),
    [("my-trainer", "must be a Python identifier"), ("json", "has the name of a module of Python")],
)
def test_a_name_that_cannot_be_imported_is_refused(tmp_path: Path, name: str, why: str) -> None:
    write(tmp_path / name, "__init__.py")

    with pytest.raises(PackageInvalid, match=f"{name}.*{why}"):
        copied(tmp_path / name, tmp_path / "target")


def test_a_link_within_the_folder_is_the_file_that_it_leads_to(project: Path, tmp_path: Path) -> None:
    (project / "trainer" / "again.py").symlink_to("task.py")

    copied(project / "trainer", tmp_path / "target")

    again = tmp_path / "target" / "trainer" / "again.py"
    assert again.read_text() == "# trainer/task.py\n"
    assert not again.is_symlink()


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("../notes.txt", "is a link that leads out of the package folder"),
        ("/etc/passwd", "is a link that leads out of the package folder, to '/etc/passwd'"),
        ("..", "is a link that leads out of the package folder"),
        (".", "must be a link to a file of the package folder"),
        ("missing.py", "must be a link to a file of the package folder"),
    ],
)
def test_a_link_that_leads_elsewhere_is_refused(project: Path, tmp_path: Path, link: str, why: str) -> None:
    (project / "trainer" / "link").symlink_to(link)

    with pytest.raises(PackageInvalid, match=why):
        copied(project / "trainer", tmp_path / "target")


def test_a_socket_or_a_pipe_is_refused(project: Path, tmp_path: Path) -> None:
    os.mkfifo(project / "trainer" / "pipe")

    with pytest.raises(PackageInvalid, match="pipe' is neither a file nor a folder"):
        copied(project / "trainer", tmp_path / "target")


def test_a_huge_folder_is_refused_before_it_is_copied(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (project / "trainer" / "data.bin").open("wb") as file:
        file.truncate(package_source.MAX_BYTES + 1)

    with pytest.raises(
        PackageInvalid, match="at most 10000 files and 100 MiB, and has more; leave data out of it"
    ):
        copied(project / "trainer", tmp_path / "target")
    assert not (tmp_path / "target" / "trainer" / "data.bin").exists()


def test_too_many_files_are_refused(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_source, "MAX_FILES", 1)

    with pytest.raises(PackageInvalid, match="at most 1 files"):
        copied(project / "trainer", tmp_path / "target")
