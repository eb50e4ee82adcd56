"""What Airflow's provider discovery is told: every class that it names is there, and is of this distribution."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from container_training.get_provider_info import get_provider_info
from container_training.operators.plots import PlotTrialsOperator

ROOT = Path(__file__).parents[3]


def test_the_provider_description_names_the_distribution() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert get_provider_info()["package-name"] == project["name"]
    assert get_provider_info()["versions"] == [project["version"]]


def test_airflow_knows_the_buttons() -> None:
    assert set(get_provider_info()["extra-links"]) == {
        f"{type(link).__module__}.{type(link).__qualname__}"
        for link in PlotTrialsOperator.operator_extra_links
    }


def load(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def test_every_connection_type_is_that_of_its_hook() -> None:
    for described in get_provider_info()["connection-types"]:
        hook = load(described["hook-class-name"])

        assert (hook.conn_type, hook.hook_name) == (described["connection-type"], described["hook-name"])


def test_every_extra_link_is_there_and_has_a_button_of_its_own() -> None:
    names = [load(path)().name for path in get_provider_info()["extra-links"]]

    assert all(names)
    assert len(set(names)) == len(names)
