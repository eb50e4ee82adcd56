"""The committed third-party code equals its packages, by the list of ``.ci/fetch-assets``."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("plugins/container_training/dashboard/static/vendor", "tests/e2e/vendor")
PACKAGES: list[dict[str, Any]] = json.loads((ROOT / ".ci" / "vendor.json").read_text("utf-8"))["packages"]
FILES = {entry["to"]: entry["sha256"] for package in PACKAGES for entry in package["files"]}


@pytest.mark.parametrize("name", FILES)
def test_file_has_the_sum_of_the_list(name: str) -> None:
    assert hashlib.sha256((ROOT / name).read_bytes()).hexdigest() == FILES[name]


def test_no_file_of_others_is_missing_from_the_list() -> None:
    found = {path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).iterdir()}

    assert found == set(FILES)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package["name"])
def test_package_has_a_version_and_its_licence_beside_it(package: dict[str, Any]) -> None:
    assert package["version"].count(".") == 2
    assert package["license"] in {"MIT", "BSD-3-Clause", "MPL-2.0"}
    assert any(entry["to"].endswith(".LICENSE") for entry in package["files"])
