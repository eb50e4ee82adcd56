"""Why a task was stopped: ended for good, or only begun anew."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from enum import StrEnum
from typing import Any

from container_training.airflow_internals.tasks import states_of_run
from container_training.work.orphans.orphans import are_over

_log = logging.getLogger(__name__)


class TaskFate(StrEnum):
    """What the database says of a task that was stopped."""

    ENDED = "ended for good"  #: marked as failed, or removed with its run: nobody waits for the job any more
    DONE = "marked as successful, with tasks of its run to come"  #: one of them may need the job
    LAST_DONE = "marked as successful, as the last of its run"  #: nobody will wait for the job
    RESTARTED = "cleared while it ran"  #: the next attempt begins when this one has ended
    REPEATED = "cleared"  #: the next attempt takes the job over, perhaps already
    UNKNOWN = "stopped for an unknown reason"


_FATE_SECONDS = 3.0
_ENDED = frozenset({"failed", "upstream_failed", "skipped", "removed"})
#: After these, a wait's job has nobody any more.
NOBODY_WAITS = frozenset({TaskFate.ENDED, TaskFate.LAST_DONE})


def fate_of(task_instance: Any) -> TaskFate:
    """
    Return the fate of ``task_instance``, from its state in Airflow's database.

    Blocking; asks through the process's supervisor. Any state but a final one means that the task is to run
    again.

    :param task_instance: anything with dag_id, task_id, run_id and map_index.
    """
    if task_instance is None:
        return TaskFate.UNKNOWN
    # Mapped tasks are listed as <task>_<map index>.
    suffix = f"_{task_instance.map_index}" if task_instance.map_index >= 0 else ""
    try:
        own = _states(task_instance, task_ids=[task_instance.task_id], map_index=task_instance.map_index)
        fate = _fate(own, task_instance.task_id + suffix)
        # A run may have thousands of tasks; they count only here.
        if fate is TaskFate.DONE and are_over(_states(task_instance).values()):
            return TaskFate.LAST_DONE
    except OSError as error:
        _log.warning("the state of task %s could not be read: %s", task_instance.task_id, error)
        return TaskFate.UNKNOWN
    return fate


def fate_in_signal_handler(task_instance: Any) -> TaskFate:
    """
    Return what :func:`fate_of` returns, or ``UNKNOWN`` after three seconds.

    A signal handler may have stopped this very thread in the middle of a message to the supervisor, which
    holds a lock; asking from another thread with a limit cannot deadlock.
    """
    executor = ThreadPoolExecutor(max_workers=1)
    try:
        return executor.submit(fate_of, task_instance).result(timeout=_FATE_SECONDS)
    except FutureTimeout:
        return TaskFate.UNKNOWN
    finally:
        executor.shutdown(wait=False)


def _states(task_instance: Any, **which: Any) -> dict[str, str | None]:
    return states_of_run(task_instance.dag_id, task_instance.run_id, **which)


def _fate(states: dict[str, str | None], key: str) -> TaskFate:
    if key not in states:
        return TaskFate.ENDED  # the run was deleted
    state = states[key]
    if state in _ENDED:
        return TaskFate.ENDED
    if state == "restarting":
        return TaskFate.RESTARTED
    return TaskFate.DONE if state == "success" else TaskFate.REPEATED
