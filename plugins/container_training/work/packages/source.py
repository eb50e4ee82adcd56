"""
Checks a trainer's folder and copies it to where it can be built.

It is the project that gcloud's ``--package-path`` would build.

The copy is what setuptools may write into; the user's folder stays as it is.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from training_api.errors import PackageInvalid

#: A package is code; data and weights belong into the object store.
MAX_BYTES = 100 * 2**20
MAX_FILES = 10_000
#: What tools leave in a folder, and what versions of it hold.
_IGNORED = frozenset(
    {"__pycache__", ".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", "node_modules"}
    | {".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"}
)
_IGNORED_SUFFIXES = (".pyc", ".pyo", ".egg-info")
#: What setuptools writes beside a setup.py.
_BUILT = frozenset({"build", "dist"})
_SETUP = """\
from setuptools import find_packages, setup

setup(
    name={name!r},
    version="0.0.0",
    packages=find_packages(include=[{name!r}, {below!r}]),
    package_data={{"": ["*"]}},
)
"""


def copy_project(package_path: str | Path, target: Path) -> None:
    """
    Copy the trainer's project at ``package_path`` to the empty folder ``target``.

    It can be built there.

    A folder with a ``setup.py`` or a ``pyproject.toml`` is a project as it is. A package - a folder with
    ``__init__.py`` - belongs to the ``setup.py`` beside it, or gets one with its name, version 0.0.0, its
    sub-packages and their data.

    :raises PackageInvalid: no such folder, no package, too much of it, or a link that leads out of it.

    Source: gcloud, ``command_lib/ml_engine/jobs_prep.py``, ``BuildPackages``. Deviation: its own setup.py
    leaves sub-packages and data out, and a project may be named itself.
    """
    folder = Path(package_path)
    if not folder.is_dir():
        raise PackageInvalid(
            f"package_path must be a folder, got {str(package_path)!r}; a relative path starts at the folder of "
            "the DAG's file"
        )
    folder = folder.resolve()
    if _is_project(folder):
        _copy(folder, target)
        return
    if not (folder / "__init__.py").is_file():
        raise PackageInvalid(
            f"package folder {str(package_path)!r} must have an __init__.py, a setup.py or a pyproject.toml"
        )
    if (folder.parent / "setup.py").is_file():
        _copy(folder.parent, target)
        return
    _check_name(folder.name)
    (target / folder.name).mkdir()
    _copy(folder, target / folder.name)
    setup = _SETUP.format(name=folder.name, below=f"{folder.name}.*")
    (target / "setup.py").write_text(setup, encoding="utf-8")


def _is_project(folder: Path) -> bool:
    return (folder / "setup.py").is_file() or (folder / "pyproject.toml").is_file()


def _check_name(name: str) -> None:
    if not name.isidentifier():
        raise PackageInvalid(
            f"package folder {name!r} cannot be imported: its name must be a Python identifier, like trainer"
        )
    if name in sys.stdlib_module_names:
        raise PackageInvalid(
            f"package folder {name!r} has the name of a module of Python itself; rename it, to trainer for "
            "example"
        )


def _copy(source: Path, target: Path) -> None:
    size = 0
    for count, path in enumerate(_files(source), 1):
        size += path.stat().st_size
        if count > MAX_FILES or size > MAX_BYTES:
            raise PackageInvalid(
                f"package folder {str(source)!r} must have at most {MAX_FILES} files and "
                f"{MAX_BYTES // 2**20} MiB, and has "
                "more; leave data out of it, in the object store"
            )
        copied = target / path.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copied)


def _files(root: Path) -> Iterator[Path]:
    """Yield the files to copy, in a fixed order; a link to a file within ``root`` is that file."""
    folders = [root]
    while folders:
        folder = folders.pop()
        for path in sorted(folder.iterdir()):
            if path.name in _IGNORED or path.name.endswith(_IGNORED_SUFFIXES):
                continue
            if folder == root and path.name in _BUILT and (root / "setup.py").is_file():
                continue
            if path.is_symlink():
                _check_link(path, root)
            if path.is_dir():
                folders.append(path)
            elif path.is_file():
                yield path
            else:
                raise PackageInvalid(f"{str(path)!r} is neither a file nor a folder, and cannot be packaged")


def _check_link(path: Path, root: Path) -> None:
    real = path.resolve()
    if not real.is_relative_to(root):
        raise PackageInvalid(
            f"{str(path)!r} is a link that leads out of the package folder, to {str(real)!r}; put a copy in "
            "its place"
        )
    if not real.is_file():
        raise PackageInvalid(
            f"{str(path)!r} must be a link to a file of the package folder; put a copy in its place"
        )
