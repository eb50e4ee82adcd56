"""
Cancels the job of a task that was ended without a process that could cancel it.

A person ended it, or its run's ``dagrun_timeout``.

Airflow tells a trigger that its task was ended (``JobTrigger.on_kill``), but only one that runs: for a second
or two after a task is deferred none does. It tells a running task at its next heartbeat, and kills it five
seconds later; one whose worker is dead, or whose API does not answer in time, cannot do anything about its
job, and there is no next try. The API server (of a person's act) and the scheduler (of a run's limit) tell
listeners, in every case. Cancelling twice is harmless, so none of them need know of the others.

Beside that it imports what DAG files import, once, in the processes that fork for each file and each task.
"""

from __future__ import annotations

import logging
import pkgutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from container_training.airflow_internals.tasks import RUN_TIMED_OUT
from container_training.hooks.importing import importing
from container_training.runtime.daemon_threads import DaemonThreads
from training_api.job.job_id import TaskKey

if TYPE_CHECKING:
    from training_api.dialects.ml_v1.intent import Intent

# Whatever is heavier than this is imported where it is needed: every process of Airflow loads this module.
_log = logging.getLogger(__name__)
#: Which fields of a task are rendered tells what it is, subclasses included: Airflow's database has only the
#: name of a task's own class.
_OF_WAITS = frozenset({"training_conn_id", "job_id", "cancel_on_kill"})
_OF_SUBMISSIONS = frozenset({"training_conn_id", "max_cost", "detached"})
#: Pauses between looks for the job of a killed submission: it may still submit until its next heartbeat, and
#: for five seconds more.
_PAUSES_SECONDS = (0.0, 3.0, 7.0, 10.0, 20.0)
#: Listeners are told before the act is stored; how often, and for how long, it is looked whether it is.
_STORED_EVERY_SECONDS = 0.5
_STORED_LOOKS = 60
#: What Airflow imports when a connection is read, and Python when a host is looked up.
_IMPORTED_LATE = (
    "airflow.sdk.definitions.connection",
    "airflow.sdk.execution_time.cache",
    "airflow.sdk.execution_time.supervisor",
    "encodings.idna",
)
#: What DAG files import: these modules, and all in these packages.
_IMPORTED_BY_DAGS = (
    "container_training.pipeline",
    "container_training.step",
    "container_training.comparison",
    "container_training.operators",
    "container_training.sensors",
    "container_training.triggers",
)
# Tests put a virtual clock here.
_sleep: Callable[[float], None] = time.sleep


@hookimpl
def on_starting(component: Any) -> None:
    """
    Import what DAG files import, in a scheduler, DAG processor or triggerer that starts.

    The DAG processor forks for each file that it reads, and a LocalExecutor's scheduler for each task: each
    would import it anew, for a third of a second of a core. It takes 14 MB and half a second here.

    :param component: Airflow's ``Job``; in a task a marker, for which it is too late.
    """
    if type(component).__name__ != "Job":
        return
    for name in _IMPORTED_BY_DAGS:
        for found in pkgutil.iter_modules(getattr(import_module(name), "__path__", ())):
            import_module(f"{name}.{found.name}")


@hookimpl
def on_task_instance_failed(previous_state: Any, task_instance: Any, error: Any) -> None:
    """Act on a task that was marked as failed by hand: only then the previous state is unknown."""
    if previous_state is None:
        _look_after_job(TaskKey.of(task_instance), is_success=False)


@hookimpl
def on_task_instance_success(previous_state: Any, task_instance: Any) -> None:
    """Act on a task that was marked as successful by hand."""
    if previous_state is None:
        _look_after_job(TaskKey.of(task_instance), is_success=True)


@hookimpl
def on_dag_run_failed(dag_run: Any, msg: str) -> None:
    """Act on the tasks that were skipped at their run's limit of time."""
    if msg == RUN_TIMED_OUT:
        _start(_look_after_jobs_of_run, dag_run.dag_id, dag_run.run_id)


def _look_after_job(key: TaskKey, *, is_success: bool) -> None:
    """
    Start the cancel of the task's job on another thread.

    A task's key has only columns of it: when a person marks a whole run, related rows are not loaded, and
    reading one raises.
    """
    _start(cancel_job_of_task, key, is_success)


def _start(act: Callable[..., None], *args: Any) -> None:
    """Have it done on a thread: a click and the scheduler must not wait for the service."""
    _threads.do(_logged, act, *args)


# A person may mark a thousand tasks at once.
_threads = DaemonThreads("cancel-training-job", most=16)


@cache
def _load() -> None:
    """Import what the threads need, while the scheduler forks no worker."""
    with importing():
        import container_training.airflow_internals.database
        import container_training.hooks.training  # noqa: F401

        for name in _IMPORTED_LATE:
            with suppress(ImportError):  # in another release of Airflow
                import_module(name)


def _logged(act: Callable[..., None], *args: Any) -> None:
    _load()
    from airflow.sdk.exceptions import AirflowException
    from sqlalchemy.exc import SQLAlchemyError

    from training_api.errors import TrainingError

    try:
        act(*args)
    except (TrainingError, AirflowException, SQLAlchemyError) as error:
        _log.error("a job may go on, though its task was ended (%s%s): %s", act.__name__, args, error)
    except Exception:
        _log.exception("a job may go on, though its task was ended (%s%s)", act.__name__, args)


def cancel_job_of_task(key: TaskKey, is_success: bool) -> None:
    """
    Cancel the job that a task waits for or submits, which a person or a limit has ended.

    A task that never began has no fields, and so no job.
    """
    rendered = _rendered_fields(key)
    if rendered.keys() >= _OF_WAITS:
        cancel_job_of_wait(key, rendered, is_success)
    elif rendered.keys() >= _OF_SUBMISSIONS:
        cancel_job_of_submission(key, rendered, is_success)


def cancel_job_of_wait(key: TaskKey, rendered: Mapping[str, Any], is_success: bool) -> None:
    """
    Cancel the job that the task ``key`` waited for, if no other task of its DAG run needs it.

    That DAG run must have submitted the job.

    :param rendered: the task's fields.
    :param is_success: the wait was marked as successful: then other tasks of the run may need the job.
    """
    from container_training.hooks.training import TrainingHook
    from training_api.dialects.ml_v1.intent import owner_within, why_left_alone

    # A template leaves text.
    is_to_cancel = str(rendered.get("cancel_on_kill", True)).lower() not in ("false", "0", "")
    job_id = rendered.get("job_id")
    if (
        not job_id
        or not is_to_cancel
        or (is_success and not (_is_stored(key) and _is_over(key, whole_run=True)))
    ):
        return
    with TrainingHook(rendered["training_conn_id"]) as hook:
        job = hook.get_job(job_id)
        owner = owner_within(job, key.dag_id, key.run_id)
        if not why_left_alone(job, owner, is_success=is_success):
            hook.cancel_job(job_id)
            _log.info("job %s is being cancelled: its wait was ended", job_id)


def cancel_job_of_submission(key: TaskKey, rendered: Mapping[str, Any], is_success: bool) -> None:
    """
    Cancel the job that the task ``key`` was about to submit when it was ended.

    Also if the job appears only later.

    Looks for up to a minute, or as long as lists of the service lag behind. Does nothing if the task had
    submitted it and was over, and stops if the task is cleared.

    :param rendered: the task's fields.
    :param is_success: it was marked as successful: if it waited for its job already, other tasks of the run
        may need the job.
    """
    from container_training.hooks.training import TrainingHook
    from training_api.dialects.ml_v1.intent import why_left_alone
    from training_api.errors import JobNotFound

    if not _is_stored(key) or _has_pushed(key, "return_value"):
        return
    is_waiting = _has_pushed(key, "job_id")
    if is_success and is_waiting and not _is_over(key, whole_run=True):
        return
    with TrainingHook(rendered["training_conn_id"]) as hook:
        left = hook.client.capabilities.list_lag_seconds - sum(_PAUSES_SECONDS)
        for pause in (*_PAUSES_SECONDS, *([left] if left > 0 else [])):
            _sleep(pause)
            if not _is_over(key):
                return
            intent = _stored_intent(key)
            if intent is None:
                continue
            try:
                job = hook.get_job(intent.name)
            except JobNotFound:
                continue
            if not why_left_alone(job, intent.owner, is_success=is_success and is_waiting):
                hook.cancel_job(job.job_id or "")
                _log.info("job %s is being cancelled: its submission was ended", job.job_id)
            return


def _look_after_jobs_of_run(dag_id: str, run_id: str) -> None:
    from container_training.airflow_internals.database import airflow_database, run_state, tasks_of_runs

    # The scheduler stores what it has done to many runs at once: on a busy machine that takes seconds.
    for _ in range(_STORED_LOOKS):
        _sleep(_STORED_EVERY_SECONDS)
        with airflow_database() as session:
            if run_state(dag_id, run_id, session) != "failed":
                continue
            skipped = tasks_of_runs([(dag_id, run_id)], session, state="skipped")
        for key in skipped:
            _look_after_job(key, is_success=False)
        return
    _log.warning("run %s of %s was told to be over its limit, and does not end", run_id, dag_id)


def _rendered_fields(key: TaskKey) -> Mapping[str, Any]:
    from container_training.airflow_internals.database import airflow_database, rendered_fields

    with airflow_database() as session:
        return rendered_fields(key, session)


def _is_stored(key: TaskKey) -> bool:
    """
    Tell whether the task is over now, or within half a minute.

    It is not if a person cleared it meanwhile.
    """
    for _ in range(_STORED_LOOKS):
        if _is_over(key):
            return True
        _sleep(_STORED_EVERY_SECONDS)
    return False


def _is_over(key: TaskKey, *, whole_run: bool = False) -> bool:
    """Tell whether the task, or its whole run, does nothing more by itself."""
    from container_training.work.orphans.orphans import are_over

    return are_over(_states(key, only_its_own=not whole_run))


def _states(key: TaskKey, *, only_its_own: bool = False) -> list[str | None]:
    from container_training.airflow_internals.database import airflow_database, task_states

    with airflow_database() as session:
        return task_states(key, session, whole_run=not only_its_own)


def _has_pushed(key: TaskKey, name: str) -> bool:
    """
    Whether the task has an output under ``name``.

    A ``return_value``: it was over when it was ended, and its job belongs to the tasks after it.
    """
    from container_training.airflow_internals.database import airflow_database, has_xcom

    with airflow_database() as session:
        return has_xcom(key, name, session)


def _stored_intent(key: TaskKey) -> Intent | None:
    """Return what the task stored before its request."""
    from container_training.airflow_internals.database import stored_state
    from training_api.dialects.ml_v1.intent import INTENT_KEY, Intent

    return Intent.from_json(stored_state(key, INTENT_KEY))
