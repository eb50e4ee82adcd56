"""DAG files that a command has written, as Airflow reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.dag_processing.dagbag import DagBag


def read_dag(source: str, folder: Path) -> Any:
    """Return the one DAG of a file with this text; it must have no import error and no cycle."""
    file = folder / "migrated.py"
    file.write_text(source)
    bag = DagBag(str(file), collect_dags=False)
    bag.collect_dags(str(file))
    assert bag.import_errors == {}
    (dag,) = bag.dags.values()
    dag.check_cycle()
    return dag
