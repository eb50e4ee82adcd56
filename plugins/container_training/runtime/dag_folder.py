"""Where the relative paths of a task's arguments start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context


def dag_folder(context: Context) -> Path:
    """
    Return the folder of the DAG's file, at which relative paths start.

    The working folder of a worker says nothing to the author of a DAG.
    """
    dag = context.get("dag")
    return Path(dag.fileloc).parent if dag is not None and dag.fileloc else Path()
