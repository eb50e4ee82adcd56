"""
What Airflow's provider discovery is told.

Every class that it names is there, and is of this distribution.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from container_training.get_provider_info import get_provider_info
from container_training.operators.plots import PlotTrialsOperator
from tests.support.distributions import AIRFLOW
from training_api.version import __version__


def test_the_provider_description_names_the_distribution() -> None:
    assert get_provider_info()["package-name"] == AIRFLOW.name
    assert get_provider_info()["versions"] == [__version__]


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
