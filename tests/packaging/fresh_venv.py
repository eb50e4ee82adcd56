"""Wheels of the distributions, and virtual environments with nothing else in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.distributions import ROOT, Distribution
from tests.support.speed import scaled

#: Set by the tests' own process for itself; a program of a fresh environment must not see them.
_OURS = ("AIRFLOW", "GOOGLE_", "PYTHON", "STORAGE_", "TRAINING_", "VIRTUAL_ENV")
_IMPORT_ALL = """
import importlib, json, sys
missing = {}
for name in json.load(sys.stdin):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing[name] = error.name
print(json.dumps(missing))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshVenv:
    """
    A virtual environment with some wheels, and what they ask for in the versions of the lock.

    :param folder: where it is made.
    """

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def with_packages(cls, folder: Path, packages: Iterable[str | Path]) -> FreshVenv:
        """Return a new one with pip; what uv has in its cache is linked, not fetched."""
        _run(
            [sys.executable, "-m", "uv", "venv", "--quiet", "--seed", "--python", sys.executable, str(folder)]
        )
        install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(folder)]
        _run([*install, "--constraint", str(ROOT / "requirements.txt"), *map(str, packages)])
        home = folder / "airflow"
        return cls(folder=folder, environment={"AIRFLOW_HOME": str(home), "HOME": str(folder)})

    def program(self, name: str) -> str:
        """Return the path of an installed command."""
        return str(self.folder / "bin" / name)

    def variables(self) -> dict[str, str]:
        """Return the environment of its programs: nothing of ours, and no module of the checkout."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        return kept | {"PATH": f"{self.folder / 'bin'}:{kept['PATH']}"} | self.environment

    def run_code(self, code: str, *, given: str = "", **variables: str) -> str:
        """Run Python code, with ``given`` as its input, and return what it printed."""
        # -P: the folder that it runs in is no place for modules.
        command = [self.program("python"), "-P", "-c", code]
        return _run(command, given=given, environment=self.variables() | variables, folder=self.folder)

    def modules_missing_at_import(self, modules: Sequence[str]) -> dict[str, str]:
        """Return those of ``modules`` that cannot be imported, and what each lacks."""
        printed = self.run_code(_IMPORT_ALL, given=json.dumps(modules)).splitlines()
        missing: dict[str, str] = json.loads(printed[-1])
        return missing

    def sizes(self) -> dict[str, int]:
        """Return what is installed, and the bytes of its files."""
        (packages,) = self.folder.glob("lib/python3.*/site-packages")
        return {
            canonicalize_name(found.metadata["Name"]): sum(
                path.stat().st_size
                for file in found.files or []
                if (path := Path(str(file.locate()))).exists()
            )
            for found in distributions(path=[str(packages)])
        }

    def closure(self, names: Iterable[str]) -> set[str]:
        """Return the installed distributions among ``names`` and all that they ask for."""
        (packages,) = self.folder.glob("lib/python3.*/site-packages")
        asked = {
            canonicalize_name(found.metadata["Name"]): [Requirement(line) for line in found.requires or []]
            for found in distributions(path=[str(packages)])
        }
        seen: set[tuple[str, str]] = set()
        ahead = [(name, "") for name in names]
        while ahead:
            name, extra = place = ahead.pop()
            if place in seen:
                continue
            seen.add(place)
            for requirement in asked.get(name, []):
                if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                    ahead += [
                        (canonicalize_name(requirement.name), each) for each in ("", *requirement.extras)
                    ]
        return {name for name, _ in seen if name in asked}


def build(distribution: Distribution, folder: Path) -> Path:
    """Make the source distribution, and from that the wheel; return the wheel. Needs no network."""
    source = str(ROOT / distribution.folder)
    _run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), source])
    (wheel,) = folder.glob(f"{distribution.name.replace('-', '_')}-*.whl")
    return wheel


def _run(
    command: Sequence[str],
    *,
    given: str = "",
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> str:
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, env=environment, cwd=folder, timeout=scaled(240)
    )
    assert done.returncode == 0, (
        f"{command} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    )
    return done.stdout
