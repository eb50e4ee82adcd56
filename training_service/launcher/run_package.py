"""
Installs a job's packages and becomes its module: ``python -m MODULE ARGUMENTS``.

It is the entry point of runtime images, and is brought into the containers of other images.

Runs on the standard library of whatever Python the image has (3.8 or later). Its own failures go to standard
error and have exit codes of sysexits.h, which a trainer seldom uses: 64 usage, 65 a package that cannot be
installed or has no such module, 66 a package that is not there or may not be read, 69 a store that does not
answer, 73 a file that cannot be written.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.machinery
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from object_download import (
    ObjectDenied,
    ObjectMissing,
    StoreUnavailable,
    TargetUnwritable,
    download,
    split_generation,
)

EXIT_NOT_INSTALLABLE = 65
EXIT_NO_PACKAGE = 66
EXIT_UNAVAILABLE = 69
EXIT_UNWRITABLE = 73


class RunnerFailed(Exception):
    """The trainer cannot be started; carries what to say and the exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def main(arguments: Sequence[str]) -> NoReturn:
    """Install and run."""
    own, trainer = split_arguments(arguments)
    options = read_options(own)
    announce(options)
    try:
        require_pip()
        work = Path(tempfile.mkdtemp(prefix="job-"))
        python = make_environment(work / "environment")
        install(
            python, [wheel for file in fetch(options.package, work) for wheel in build(python, file, work)]
        )
        command = [str(python), "-m", options.module, *trainer]
        require_module(python, options.module)
    except RunnerFailed as error:
        print(f"The job cannot start: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    say(f"running {' '.join(command[1:3])} with {len(trainer)} arguments")
    become(command)


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what stands before the first ``--``, and what follows it; pure."""
    words = list(arguments)
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def read_options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the runner's own options."""
    parser = argparse.ArgumentParser(prog="run_package", allow_abbrev=False)
    parser.add_argument("--package", action="append", required=True, help="gs:// URI; may be repeated")
    parser.add_argument("--module", required=True, help="what to run")
    parser.add_argument("--runtime-version", default="", help="what the job asked for")
    parser.add_argument("--python-version", default="", help="what the job asked for")
    return parser.parse_args(arguments)


def announce(options: argparse.Namespace) -> None:
    """Say what this is, and that it is not what was asked for where that is so."""
    real = platform.python_version()
    if not options.runtime_version:
        say(f"the packages run on the image's Python {real}")
        return
    asked = options.python_version
    is_other = asked and not real.startswith(f"{asked}.")
    note = f", not {asked}" if is_other else ""
    say(
        f"runtime version {options.runtime_version} runs here on Python {real}{note}; "
        "what the image does not have, such as TensorFlow, must be in install_requires of a package's "
        "setup.py"
    )


def require_pip() -> None:
    """Refuse an image without pip, by name."""
    # Not find_spec: under it setuptools takes this process for pip, and gives it another distutils.
    if importlib.machinery.PathFinder.find_spec("pip") is None:
        raise RunnerFailed(
            f"the image has no pip for its {sys.executable}: packages need an image with python3 and pip",
            EXIT_NOT_INSTALLABLE,
        )


def make_environment(folder: Path) -> Path:
    """Make a virtual environment that sees the image's own packages; return its Python."""
    venv.create(folder, system_site_packages=True, symlinks=True, with_pip=False)
    return folder / "bin" / "python"


def fetch(uris: Sequence[str], work: Path) -> list[Path]:
    """Return the packages as files, each in a folder of its own, in the order of ``uris``."""
    files = []
    for number, uri in enumerate(uris, 1):
        file = work / "packages" / str(number) / split_generation(uri)[0].rsplit("/", 1)[-1]
        begun = time.monotonic()
        try:
            size = download(uri, file, say)
        except (ObjectMissing, ObjectDenied) as error:
            raise RunnerFailed(
                f"{error}; upload the package and submit the job again", EXIT_NO_PACKAGE
            ) from error
        except StoreUnavailable as error:
            raise RunnerFailed(str(error), EXIT_UNAVAILABLE) from error
        except TargetUnwritable as error:
            raise RunnerFailed(str(error), EXIT_UNWRITABLE) from error
        say(f"package {number} of {len(uris)}: {uri}, {size} bytes in {time.monotonic() - begun:.1f} s")
        check_archive(uri, file)
        files.append(file)
    return files


def check_archive(uri: str, file: Path) -> None:
    """Refuse early what pip would refuse in many words."""
    is_zip = file.name.endswith((".whl", ".zip"))
    if not is_zip and not file.name.endswith((".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar")):
        raise RunnerFailed(
            f"{uri} must be a source distribution (.tar.gz, .zip) or a wheel (.whl)", EXIT_NOT_INSTALLABLE
        )
    if not (zipfile.is_zipfile(file) if is_zip else tarfile.is_tarfile(file)):
        raise RunnerFailed(f"{uri} is no {'zip' if is_zip else 'tar'} archive", EXIT_NOT_INSTALLABLE)


def build(python: Path, file: Path, work: Path) -> list[Path]:
    """
    Return the wheel of a package.

    A package without pyproject.toml is built by the image's setuptools, if it has one, which needs no
    network; one with it by what it asks for there.
    """
    if file.suffix == ".whl":
        return [file]
    say(f"building {file.name}")
    target = work / "wheels" / file.parent.name
    isolation = ["--no-build-isolation"] if has_setuptools() and not has_pyproject(file) else []
    command = ["wheel", "--no-deps", "--progress-bar=off", *isolation, "--wheel-dir", str(target), str(file)]
    if pip(python, command):
        raise RunnerFailed(f"{file.name} cannot be built: pip's output above says why", EXIT_NOT_INSTALLABLE)
    return sorted(target.glob("*.whl"))


def has_setuptools() -> bool:
    """
    Tell whether the image can make wheels.

    setuptools 70.1 and later needs no ``wheel`` for it.
    """
    names = ("wheel", "setuptools.command.bdist_wheel")
    return find_spec("setuptools") is not None and any(find_spec(name) for name in names)


def has_pyproject(file: Path) -> bool:
    """Whether the source distribution has a pyproject.toml at its root."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    else:
        with tarfile.open(file) as archive:
            names = archive.getnames()
    return any(Path(name).name == "pyproject.toml" and len(Path(name).parts) <= 2 for name in names)


def install(python: Path, wheels: Sequence[Path]) -> None:
    """
    Install the wheels together, with what they need from the package index.

    So one wheel may need another.
    """
    say(f"installing {', '.join(wheel.name for wheel in wheels)} and what they require")
    begun = time.monotonic()
    if pip(python, ["install", "--progress-bar=off", "--no-warn-script-location", *map(str, wheels)]):
        raise RunnerFailed(
            "pip could not install the packages and what they require: its output above says why",
            EXIT_NOT_INSTALLABLE,
        )
    say(f"installed in {time.monotonic() - begun:.1f} s")


def pip(python: Path, arguments: Sequence[str]) -> int:
    """Run pip, its output going to the job's log as it comes; return its exit status."""
    environment = {**os.environ, "PIP_NO_CACHE_DIR": "1", "PIP_NO_INPUT": "1"}
    # pip's complaints about an old setup.py are no errors of the job: all of it on one stream.
    return subprocess.run(
        [str(python), "-m", "pip", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=sys.stdout,
        check=False,
    ).returncode


def require_module(python: Path, module: str) -> None:
    """Refuse a module that no package brings; nothing of the packages is run for that."""
    site = python.parents[1] / "lib" / "python{}.{}".format(*sys.version_info[:2]) / "site-packages"
    path: Sequence[str] | None = [str(site), *sys.path[1:]]
    importlib.invalidate_caches()
    known = ""
    for name in module.split("."):
        if path is None:
            raise _no_module(module, f"{known!r} is a module, not a package")
        parent, known = known, f"{known}.{name}".lstrip(".")
        spec = importlib.machinery.PathFinder.find_spec(known, path)
        if spec is None:
            has = f"{parent!r} has no {name!r}" if parent else f"they have {top_level(site)}"
            raise _no_module(module, has)
        path = spec.submodule_search_locations


def _no_module(module: str, why: str) -> RunnerFailed:
    return RunnerFailed(f"no module {module!r} in the packages: {why}", EXIT_NOT_INSTALLABLE)


def top_level(site: Path) -> str:
    """Return the names of the installed packages and modules, for people."""
    names = {
        path.stem
        for path in site.iterdir()
        if (path.is_dir() or path.suffix == ".py") and not path.name.endswith((".dist-info", "__pycache__"))
    }
    return ", ".join(sorted(names)) or "none"


def become(command: Sequence[str]) -> NoReturn:
    """Go on as the trainer: its signals and its exit code are this process's."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], list(command))  # noqa: S606  # no shell, and the words are the job's own


def say(message: str) -> None:
    """Write a line of the runner to the job's log."""
    print(f"[runtime] {message}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
