"""Imports point downwards only: each floor of the house names the floors that it may stand on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "plugins"
FLOORS = ("core", "clients", "hooks", "links", "triggers", "operators", "sensors", "dashboard", "cli")

#: Floor of ``container_training`` -> the floors it may import. Operators and sensors name the types of clients, but get
#: the objects themselves from hooks.
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "clients": {"core"},
    "hooks": {"clients", "core"},
    "links": {"core"},
    "triggers": {"hooks", "clients", "core"},
    "operators": {"triggers", "links", "hooks", "clients", "core"},
    "sensors": {"triggers", "links", "hooks", "clients", "core"},
    "dashboard": {"hooks", "clients", "core"},
    "cli": {"hooks", "clients", "core"},
}
#: ``core`` is pure: nothing but the standard library and pydantic, and of the former nothing that reaches outside.
CORE_PACKAGES = {"pydantic", "container_training"}
OUTSIDE = {
    "os",
    "socket",
    "subprocess",
    "time",
    "random",
    "pathlib",
    "shutil",
    "tempfile",
    "urllib",
    "http",
    "asyncio",
    "threading",
}


def imports_of(path: Path) -> Iterator[str]:
    """Yield every module that ``path`` imports, at its top or within a function."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the floor"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py")) if folder.exists() else []


def floor_files() -> list[tuple[str, Path]]:
    return [(floor, path) for floor in FLOORS for path in files(PLUGINS / "container_training" / floor)]


@pytest.mark.parametrize(
    ("floor", "path"), floor_files(), ids=lambda value: str(getattr(value, "stem", value))
)
def test_a_floor_imports_lower_floors_only(floor: str, path: Path) -> None:
    used = {name.split(".")[1] for name in imports_of(path) if name.startswith("container_training.")}

    assert used & set(FLOORS) <= MAY_IMPORT[floor] | {floor}


@pytest.mark.parametrize("path", files(PLUGINS / "container_training" / "core"), ids=lambda path: path.stem)
def test_core_is_pure(path: Path) -> None:
    import sys

    packages = {name.partition(".")[0] for name in imports_of(path)}

    assert packages <= CORE_PACKAGES | set(sys.stdlib_module_names) - OUTSIDE


@pytest.mark.parametrize(
    "path", files(PLUGINS / "container_training" / "clients"), ids=lambda path: path.stem
)
def test_clients_know_nothing_of_airflow(path: Path) -> None:
    assert not [name for name in imports_of(path) if name.partition(".")[0] == "airflow"]


@pytest.mark.parametrize("path", files(ROOT / "training_service"), ids=lambda path: path.stem)
def test_the_service_uses_the_ground_floor_only_and_no_airflow(path: Path) -> None:
    names = list(imports_of(path))

    assert not [name for name in names if name.partition(".")[0] in ("airflow", "local_stack")]
    floors = {name.split(".")[1] for name in names if name.startswith("container_training.")}
    # The command line asks a service that runs elsewhere, as any client does.
    assert floors <= ({"core", "clients"} if path.parent.name == "cli" else {"core"})


@pytest.mark.parametrize("path", files(ROOT / "docker" / "local_stack"), ids=lambda path: path.stem)
def test_the_local_stack_imports_neither_airflow_nor_the_service(path: Path) -> None:
    packages = {name.partition(".")[0] for name in imports_of(path)}

    assert not packages & {"airflow", "training_service"}


@pytest.mark.parametrize("path", files(ROOT / "dags"), ids=lambda path: path.stem)
def test_dags_use_the_airflow_side_only(path: Path) -> None:
    packages = {name.partition(".")[0] for name in imports_of(path)}

    assert not packages & {"training_service", "local_stack", "docker"}
