"""
Source distributions by the real ``build`` and setuptools.

They are reproducible and complete, or refused in clear words.
"""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from container_training.work.packages.trainer_package import (
    TrainerPackage,
    build_package,
    read_package,
    require_module,
)
from training_api.errors import PackageInvalid


@pytest.fixture
def trainer(tmp_path: Path) -> Path:
    folder = tmp_path / "first" / "trainer"
    (folder / "layers").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "task.py").write_text("print('training')\n")
    (folder / "layers" / "__init__.py").touch()
    (folder / "layers" / "dense.py").write_text("SIZE = 3\n")
    (folder / "layers" / "sizes.json").write_text("{}")
    return folder


def names_in(package: TrainerPackage) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(package.content)) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


@pytest.mark.extended
def test_the_same_files_are_the_same_bytes_wherever_and_whenever_they_are_built(
    trainer: Path, tmp_path: Path
) -> None:
    first = build_package(trainer)
    elsewhere = tmp_path / "second"
    trainer.parent.rename(elsewhere)
    for path in sorted(elsewhere.rglob("*"), reverse=True):
        os.utime(path, (1, 1))

    again = build_package(elsewhere / "trainer")
    (elsewhere / "trainer" / "task.py").write_text("print('training more')\n")
    changed = build_package(elsewhere / "trainer")

    assert again == first
    assert changed.digest != first.digest
    assert first.file_name == "trainer-0.0.0.tar.gz"
    assert first.uri_below("gs://bkt/staging/") == f"gs://bkt/staging/{first.digest}/trainer-0.0.0.tar.gz"


def test_sub_packages_and_their_data_are_in_it(trainer: Path) -> None:
    package = build_package(trainer)

    assert {"trainer/task.py", "trainer/layers/dense.py", "trainer/layers/sizes.json"} <= names_in(package)
    require_module("trainer.layers.dense", [package])
    with pytest.raises(
        PackageInvalid, match=r"no module 'trainer\.tusk' in the package; it has .*trainer\.task"
    ):
        require_module("trainer.tusk", [package])


def test_a_setup_py_of_ones_own_decides_name_and_contents(trainer: Path) -> None:
    (trainer.parent / "setup.py").write_text(
        "from setuptools import setup\nsetup(name='mine', version='2.5', packages=['trainer'])\n"
    )

    package = build_package(trainer)

    assert package.file_name == "mine-2.5.tar.gz"
    assert "trainer/layers/dense.py" not in names_in(package)
    assert not (trainer.parent / "mine.egg-info").exists()


def test_a_project_with_a_pyproject_toml_is_built_by_what_it_asks_for(trainer: Path) -> None:
    (trainer.parent / "pyproject.toml").write_text(
        "[build-system]\nrequires = ['flit_core>=3.8,<5']\nbuild-backend = 'flit_core.buildapi'\n"
        "[project]\nname = 'trainer'\nversion = '7'\ndescription = 'by flit'\n"
    )

    package = build_package(trainer.parent)

    assert package.file_name == "trainer-7.tar.gz"
    assert {"pyproject.toml", "trainer/task.py"} <= names_in(package)


def test_what_a_build_says_is_in_its_error(trainer: Path) -> None:
    (trainer.parent / "setup.py").write_text("raise RuntimeError('no version today')\n")

    with pytest.raises(PackageInvalid, match=r"(?s)cannot be built; the end of.*no version today"):
        build_package(trainer)


def test_a_package_that_was_built_is_taken_as_it_is(trainer: Path, tmp_path: Path) -> None:
    package = build_package(trainer)
    file = tmp_path / package.file_name
    file.write_bytes(package.content)

    assert read_package(file) == package


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing.whl", "packages must be files or gs:// addresses"),
        ("trainer.egg", "must be one of .tar.gz, .zip, .whl"),
    ],
)
def test_what_pip_does_not_install_is_refused(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "trainer.egg").touch()

    with pytest.raises(PackageInvalid, match=why):
        read_package(tmp_path / name)
