"""What is fetched is named by its hash."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTS = [
    ROOT / "requirements.txt",
    ROOT / ".ci" / "uv.txt",
    ROOT / "docker" / "agent" / "requirements.txt",
    *sorted(ROOT.glob("docker/*/*/requirements.txt")),
]


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_all_packages_of_a_list_have_a_version_and_hashes(path: Path) -> None:
    lines = (line for line in path.read_text("utf-8").splitlines() if not line.startswith("#"))
    packages = "\n".join(lines).replace("\\\n", "").splitlines()

    assert packages
    for package in packages:
        assert re.match(r"\S+==\S+ .*--hash=sha256:[0-9a-f]{64}", package), package


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("docker/**/Dockerfile*")), ids=lambda path: path.parent.name
)
def test_images_install_packages_from_such_lists_alone(path: Path) -> None:
    for line in path.read_text("utf-8").splitlines():
        if re.search(r"pip install\b", line):
            # Wheels of this project, which bring nothing else.
            assert "--requirement" in line or "--no-deps" in line, line
