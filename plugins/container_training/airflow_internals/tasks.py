"""
What Airflow does not publish of tasks, their processes and metrics; for every process.

Each function imports what it needs when it is called: every process of Airflow loads this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: What the scheduler tells listeners of a run that was longer than its ``dagrun_timeout``.
RUN_TIMED_OUT = "timed_out"


def has_supervisor() -> bool:
    """Whether a worker started this process; not so in ``dag.test()`` and in tests."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import CommsDecoder

    return isinstance(getattr(task_runner, "SUPERVISOR_COMMS", None), CommsDecoder)


def states_of_run(dag_id: str, run_id: str, **which: Any) -> dict[str, str | None]:
    """
    Return task id -> state, from Airflow's database; in a task or in the triggerer.

    Blocking; asks through the process's supervisor. A mapped task is listed as ``<task>_<map index>``.
    The public way to it is a task's context, which a trigger does not have.

    :param which: ``task_ids`` and ``map_index``: only these tasks.
    :raises OSError: the supervisor does not answer, or refuses.
    """
    from airflow.sdk.exceptions import AirflowRuntimeError
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        found: dict[str, dict[str, str | None]] = RuntimeTaskInstance.get_task_states(
            dag_id=dag_id, run_ids=[run_id], **which
        )
    except (AirflowRuntimeError, EOFError) as error:
        raise OSError(str(error)) from error
    return found.get(run_id, {})


def task_metrics() -> Any:
    """Return what counts and measures in a task: ``incr``, ``gauge``."""
    from airflow.sdk.observability import stats

    return stats


def triggerer_metrics() -> Any:
    """Return what counts and measures in the triggerer, which has metrics of its own."""
    from airflow.observability import stats

    return stats


def is_asset(outlet: Any) -> bool:
    """Whether ``outlet`` is an asset, or a reference to one by name or URI."""
    from airflow.sdk import Asset
    from airflow.sdk.definitions.asset import AssetRef

    return isinstance(outlet, Asset | AssetRef)


def operator_class(task: Any) -> type:
    """Return the class of a task of a DAG, also of a mapped one."""
    found: type = getattr(task, "operator_class", type(task))
    return found


def log_file_of(task_instance: Any) -> Path:
    """Return the file in which this machine's workers keep the log of a try of a task."""
    from airflow.sdk import conf
    from airflow.utils.helpers import log_filename_template_renderer

    return Path(conf.get("logging", "base_log_folder"), log_filename_template_renderer()(ti=task_instance))
