"""
Every operator and sensor for authors of DAGs, found by a search of the packages.

So a new one is tested from its first day.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

from airflow.sdk import BaseOperator, BaseSensorOperator

import container_training.operators
import container_training.sensors

#: What operators have in common; no task by themselves.
BASES = frozenset({"EngineOperator", "JobDescriptionOperator", "ModelOperator"})
#: They need a service of Google's; their own tests, of these modules, run the examples against its API.
IN_THE_CLOUD = {"CloudBuildImageOperator": "cloud_build", "EnsureRepositoryOperator": "repository"}
_AIRFLOWS_OWN = frozenset({*BaseOperator.__mro__, *BaseSensorOperator.__mro__})


def public_operators() -> dict[str, type[Any]]:
    """Return the classes by name."""
    return {
        name: value
        for package in (container_training.operators, container_training.sensors)
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        for name, value in vars(importlib.import_module(module.name)).items()
        if inspect.isclass(value)
        and issubclass(value, BaseOperator)
        and value.__module__ == module.name
        and not name.startswith("_")
        and name not in BASES
    }


def own_arguments(operator: type[Any]) -> dict[str, inspect.Parameter]:
    """Return the arguments that this project gave ``operator``, not those of Airflow's tasks."""
    return {
        name: parameter
        for base in operator.__mro__
        if base not in _AIRFLOWS_OWN and "__init__" in vars(base)
        for name, parameter in inspect.signature(base.__init__).parameters.items()
        if name not in ("self", "kwargs")
    }
