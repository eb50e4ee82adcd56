"""The agents' image has all that the agent imports, pinned, and is named by it."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from local_stack.parts.agent_image import agent_image

#: Imports the agent where the packages that are named cannot be had.
_IMPORT = """
import sys
absent = set(sys.stdin.read().split())
class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import training_service.agent.__main__ as agent
print(agent.__file__)
"""
_PACKAGES = ("training_api", "container_engines", "training_service")


def import_agent(folder: Path, names: list[str]) -> tuple[str, str]:
    absent = set(packages_distributions()) - {*_PACKAGES, *names}
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT],
        input=" ".join(absent),
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
    )
    return done.stdout.strip(), done.stderr


def test_its_sources_need_no_packages_but_those_that_it_pins(tmp_path: Path) -> None:
    image = agent_image("base:1")
    for name, content in image.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    lines = image.files["requirements.txt"].decode().splitlines()
    pinned = [line.partition("==")[0].replace("-", "_") for line in lines if "==" in line]

    path, error = import_agent(tmp_path, pinned)

    assert path == str(tmp_path / "training_service" / "agent" / "__main__.py"), error
    assert (
        "No module named 'httpx'" in import_agent(tmp_path, [each for each in pinned if each != "httpx"])[1]
    )


def test_another_base_is_another_image_and_what_is_compiled_is_none_of_it() -> None:
    image = agent_image("base:1")

    assert image.name == agent_image("base:1").name
    assert image.name != agent_image("base:2").name
    assert {path.rpartition(".")[2] for path in image.files} == {"Dockerfile", "txt", "py"}
