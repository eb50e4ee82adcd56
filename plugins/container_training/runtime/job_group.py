"""What the groups of tasks around jobs share: their defaults, and a job's default folder."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator, TaskGroup, conf

from container_training.hooks.training import TrainingHook
from container_training.runtime.task_arguments import OperatorArguments, TaskArguments
from container_training.work.submission.job_attempt import JOB_ID_MARK

#: Errors that may pass are retried; those that will not fail a task at once, whatever is set here.
RETRIES: Mapping[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=10)}


def default_retries() -> Mapping[str, Any]:
    """Return the retries where no author says otherwise; none: Airflow's configuration says it."""
    return {} if conf.getint("core", "default_task_retries", fallback=0) else RETRIES


def with_default_retries(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``said``, with the default retries beside it if it has no ``retries``."""
    return {**({} if "retries" in said else default_retries()), **said}


def retries_of_mapped(partial: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the retries of a task to be mapped, of a class that has retries of its own.

    The scheduler reads them before the class is asked. What Airflow puts there by itself differs between its
    versions: 3.3.0 has the deployment's, 3.3.2 the class's default, which is ``None``.

    :param partial: what Airflow made of the arguments.
    :param arguments: what ``partial`` of the class was called with.
    """
    dag, group = partial.kwargs["dag"], partial.kwargs["task_group"]
    said: dict[str, Any] = {}
    for place in (dag and dag.default_args, group and group.default_args, arguments.get("default_args")):
        said |= place or {}
    said |= {name: arguments[name] for name in RETRIES if name in arguments}
    ours = with_default_retries(given(**{name: said.get(name) for name in RETRIES}))
    of_deployment = {
        "retries": conf.getint("core", "default_task_retries", fallback=0),
        "retry_delay": timedelta(seconds=conf.getint("core", "default_task_retry_delay", fallback=300)),
    }
    return {name: value for name, value in {**of_deployment, **ours}.items() if said.get(name) is None}


def job_group(
    group_id: str,
    default_args: Mapping[str, Any] | None,
    fields: Mapping[str, Any] | None = None,
    **connections: str | None,
) -> TaskGroup:
    """
    Return a group of tasks with retries and a folder for their job; enter it within a DAG.

    An argument of a task comes from ``fields`` and ``connections``, else from ``default_args``, from those of
    the groups around, from those of the DAG, or is the project's own. The group's ``default_args`` then hold
    what all of these say.

    :param fields: what the author gave, arguments of single tasks included.
    :param connections: connections and the engine that the author gave; ``None``: not given.
    :raises TypeError: an argument of Airflow's tasks that only one task can be meant by.
    """
    fields = fields or {}
    of_all_tasks = {name: fields[name] for name in TaskArguments.__annotations__ if name in fields}
    for name in fields.keys() & OperatorArguments.__annotations__.keys() - of_all_tasks.keys():
        raise TypeError(
            f"{name}={fields[name]!r} is for one task and not for all of the group {group_id!r}: set it on "
            f"the task that is meant, such as submit.{name}, or for all in default_args"
        )
    said: Any = {**(default_args or {}), **given(**connections), **of_all_tasks}
    group = TaskGroup(group_id=group_id, default_args=said)
    group.default_args = {**default_retries(), **group.dag.default_args, **group.default_args}
    group.default_args.setdefault("default_job_dir", own_folder(training_connection(group)))
    return group


def training_connection(group: TaskGroup) -> str:
    """Return the connection of the training service that tasks of ``group`` have. Pure."""
    return str(own(group, "training_conn_id", None, TrainingHook.default_conn_name))


def own(group: TaskGroup, name: str, value: Any, ours: Any) -> Any:
    """Return the author's ``value``, else the default of the group, else ``ours``. Pure."""
    return group.default_args.get(name, ours) if value is None else value


def given(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that are not ``None``: those that an author gave. Pure."""
    return {name: value for name, value in arguments.items() if value is not None}


def wait_limits(wait_timeout: timedelta | None) -> dict[str, Any]:
    """
    Return the limits of a wait in a group. Pure.

    A limit that is given for waits is their only one: an ``execution_timeout`` that is meant for builds and
    submissions does not end them.
    """
    return (
        {} if wait_timeout is None else {"timeout": wait_timeout.total_seconds(), "execution_timeout": None}
    )


def follow_connection(group: TaskGroup, training_conn_id: str) -> None:
    """
    Have all tasks that are made in ``group`` from now on use a connection.

    :param training_conn_id: its id, or a template of one expression.
    """
    before = own_folder(training_connection(group))
    group.default_args["training_conn_id"] = training_conn_id
    if group.default_args["default_job_dir"] == before:
        group.default_args["default_job_dir"] = own_folder(training_connection(group))


def follow_task(group: TaskGroup, task: BaseOperator, *, may_say_none: bool = False) -> None:
    """
    Have tasks made in ``group`` from now on use the connection that ``task`` returns.

    :param task: one that pushes ``training_conn_id``.
    :param may_say_none: it may have run in an earlier version, which pushed none: then they use the
        connection that they had.
    """
    pulled = f"ti.xcom_pull(task_ids={task.task_id!r}, key='training_conn_id', map_indexes=ti.map_index)"
    had = f" or {_expression(training_connection(group))}" if may_say_none else ""
    follow_connection(group, f"{{{{ {pulled}{had} }}}}")


def job_bucket(training_conn_id: str) -> str:
    """
    Return a template for the connection's job folder. Pure.

    :param training_conn_id: the connection's id, or a template of one expression.
    """
    of = _expression(training_conn_id)
    return f"{{{{ conn.get({of}).extra_dejson.get('job_bucket', '') }}}}"


def _expression(text: str) -> str:
    """Return what ``text``, a constant or a one-expression template, is within a template."""
    is_template = text.startswith("{{") and text.endswith("}}")
    return text[2:-2].strip() if is_template else f"'{text}'"


def own_folder(training_conn_id: str) -> str:
    """Return a template for a folder of the job's own in the connection's job folder. Pure."""
    return f"{job_bucket(training_conn_id)}/{JOB_ID_MARK}"
