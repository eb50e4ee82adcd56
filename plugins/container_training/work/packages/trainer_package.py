"""A trainer's source distribution: built once, named by content, checked for its module."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from container_training.work.images.build_context import PACKED_MTIME
from container_training.work.packages.source import MAX_BYTES, copy_project
from training_api.errors import PackageInvalid

BUILD_TIMEOUT_SECONDS = 600
_OUTPUT_LINES = 20
_ARCHIVES = (".tar.gz", ".zip", ".whl")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerPackage:
    """
    A package as it is uploaded.

    :param file_name: ``trainer-0.0.0.tar.gz``.
    """

    file_name: str
    content: bytes

    @property
    def digest(self) -> str:
        """SHA-256 of the content, hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()

    def uri_below(self, staging: str) -> str:
        """Return ``STAGING/DIGEST/FILE``, where gcloud would put it within its job's folder; pure."""
        return f"{staging.rstrip('/')}/{self.digest}/{self.file_name}"

    def modules(self) -> frozenset[str]:
        """
        Return the dotted names of the modules and runnable packages in it.

        As seen from its top folder.
        """
        names = set()
        for path in self._paths():
            if path.suffix != ".py":
                continue
            parts = path.with_suffix("").parts
            if all(part.isidentifier() for part in parts):
                names.add(".".join(parts).removesuffix(".__main__"))
        return frozenset(names)

    def _paths(self) -> list[PurePosixPath]:
        if self.file_name.endswith(".tar.gz"):
            with tarfile.open(fileobj=io.BytesIO(self.content)) as archive:
                names = archive.getnames()
        else:
            with zipfile.ZipFile(io.BytesIO(self.content)) as zipped:
                names = zipped.namelist()
        is_wheel = self.file_name.endswith(".whl")
        # A source distribution has all below NAME-VERSION/.
        return [PurePosixPath(*PurePosixPath(name).parts[0 if is_wheel else 1 :]) for name in names]


def build_package(package_path: str | Path) -> TrainerPackage:
    """
    Return the source distribution of the trainer at ``package_path``.

    The same files give the same bytes.

    The folder is copied and built with ``python -m build``, by this environment's setuptools, or, where the
    project has a pyproject.toml, by what that asks for, in an environment of its own. The archive is then
    packed again, without times and owners. Runs the project's ``setup.py``.

    :raises PackageInvalid: the folder is no trainer, or cannot be built.
    """
    with tempfile.TemporaryDirectory(prefix="trainer-") as scratch:
        source, built = Path(scratch, "source"), Path(scratch, "built")
        source.mkdir()
        copy_project(package_path, source)
        _run_build(source, built, str(package_path))
        archives = sorted(built.glob("*.tar.gz"))
        if len(archives) != 1:
            raise PackageInvalid(
                f"the build of {str(package_path)!r} must make one .tar.gz, and made {len(archives)}"
            )
        return TrainerPackage(file_name=archives[0].name, content=_packed_again(archives[0]))


def read_package(path: str | Path) -> TrainerPackage:
    """
    Return a package that was built before.

    :raises PackageInvalid: no such file, or not one that pip installs.
    """
    file = Path(path)
    if not file.is_file():
        raise PackageInvalid(
            f"packages must be files or gs:// addresses, got {str(path)!r}; a relative path starts at the folder "
            "of the DAG's file"
        )
    if not file.name.endswith(_ARCHIVES):
        raise PackageInvalid(f"package {str(path)!r} must be one of {', '.join(_ARCHIVES)}")
    if file.stat().st_size > MAX_BYTES:
        raise PackageInvalid(f"package {str(path)!r} must be at most {MAX_BYTES // 2**20} MiB")
    return TrainerPackage(file_name=file.name, content=file.read_bytes())


def require_module(module: str, packages: list[TrainerPackage]) -> None:
    """
    Check that a package has the module that is to run.

    :raises PackageInvalid: none has; the message names those that they have. A package with folders of its
        own making (``src/``) is searched in them too.
    """
    known = sorted({name for package in packages for name in package.modules()} - {"setup"})
    if any(name == module or name.endswith(f".{module}") for name in known):
        return
    shown = ", ".join(name for name in known if not name.endswith("__init__")) or "none"
    raise PackageInvalid(f"no module {module!r} in the package; it has {shown[:500]}")


def _run_build(source: Path, built: Path, name: str) -> None:
    isolation = [] if (source / "pyproject.toml").is_file() else ["--no-isolation"]
    command = [sys.executable, "-m", "build", "--sdist", *isolation, "--outdir", str(built), str(source)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(PACKED_MTIME), "NO_COLOR": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=source,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=BUILD_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PackageInvalid(f"the build of {name!r} did not end in {BUILD_TIMEOUT_SECONDS} s") from error
    if done.returncode:
        lines = "\n    ".join(done.stdout.splitlines()[-_OUTPUT_LINES:])
        raise PackageInvalid(f"{name!r} cannot be built; the end of what the build says:\n    {lines}")


def _packed_again(path: Path) -> bytes:
    """Return the archive with sorted members, without what differs between builds."""
    packed = io.BytesIO()
    with (
        tarfile.open(path) as old,
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            entry = tarfile.TarInfo(member.name)
            entry.type, entry.mtime = member.type, PACKED_MTIME
            entry.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            if member.isfile():
                entry.size = member.size
                new.addfile(entry, old.extractfile(member))
            else:
                entry.linkname = member.linkname
                new.addfile(entry)
    return packed.getvalue()
