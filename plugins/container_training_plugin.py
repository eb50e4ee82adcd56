"""
The plugin, for an Airflow that has this folder but not the distribution (docs/adr/0023).

The only module that Airflow loads from this folder (see ``container_training/.airflowignore``).
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution


def is_registered_by_its_distribution() -> bool:
    """
    Whether an entry point of the installed distribution names the plugin.

    Registered twice, Airflow 3.3.2 reports an import error, and a task's process loses the plugins after it.
    """
    try:
        found = distribution("airflow-container-training").entry_points
    except PackageNotFoundError:
        return False
    return any(entry.group == "airflow.plugins" for entry in found)


if not is_registered_by_its_distribution():
    from container_training.plugin import ContainerTrainingPlugin as ContainerTrainingPlugin
