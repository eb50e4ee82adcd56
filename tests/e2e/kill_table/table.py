"""
The kill table: what each act does to a job and to its task, in each phase. Data only.

One place: ``docs/kill-table.md`` is made from it (``python -m tests.e2e.kill_table.page``), the runs of
``campaign.py`` are made for it, and ``test_kill_table.py`` compares what happened with it, cell by cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Act(StrEnum):
    """What happens to a DAG run, or to a part of the system beneath it."""

    USER_KILL = "user kill"  #: a person marks the whole DAG run as failed
    CLEAR = "clear"
    MARK_SUCCESS = "mark success"
    MARK_FAILED = "mark failed"
    EXECUTION_TIMEOUT = "execution timeout"
    DEADLINE = "dag run deadline"  #: the DAG's ``dagrun_timeout``
    TRIGGERER_RESTART = "triggerer restart"
    TRIGGERER_SIGKILL = "triggerer SIGKILL"
    SCHEDULER_RESTART = "scheduler restart"
    WORKER_SIGKILL = "Airflow worker SIGKILL"
    SERVICE_RESTART = "training service restart"  #: SIGKILL, and a new start


class Phase(StrEnum):
    """
    Where a pipeline is: the step of a task, or the state of the job that a task waits for.

    Those that begin with ``one`` are phases of a task that submits, waits and collects; those that begin with
    ``vertex`` are of a job that is submitted by Vertex AI's API.
    """

    BUILDING = "building"
    PUSHING = "pushing"
    SUBMITTING = "submitting"  #: the service has the request, the task not yet the answer
    QUEUED = "queued"
    PREPARING = "preparing"
    RUNNING = "running"
    COLLECTING = "collecting"
    ONE_SUBMITTING = "one_submitting"
    ONE_RUNNING = "one_running"  #: the task is at its wait, of which the other states are no different
    ONE_COLLECTING = "one_collecting"
    VERTEX_SUBMITTING = "vertex_submitting"
    VERTEX_RUNNING = "vertex_running"
    VERTEX_COLLECTING = "vertex_collecting"


class Job(StrEnum):
    """What becomes of the job that there is when the act happens."""

    NONE = "no job"
    KEPT = "kept"
    CANCELLED = "cancelled"
    OVER = "SUCCEEDED before"


class Task(StrEnum):
    """What becomes of the task that is in the phase."""

    CONTINUES = "continues"
    AGAIN = "next try"
    FAILED = "failed"
    SUCCESS = "success"
    SKIPPED = "skipped"


class Next(StrEnum):
    """
    What the next attempt does.

    The next try, or the try after a person clears the task (for a wait: ``submit``).
    """

    NONE = "-"
    BUILDS = "builds anew"
    PUSHES = "pushes anew"
    ADOPTS = "adopts the job"
    SUBMITS = "submits the next job"
    WAITS = "waits for the same job"
    COLLECTS = "collects anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is expected of a cell, or what happened in it."""

    job: Job
    task: Task
    next: Next


#: Phases of which a row of the table says the same.
GROUPS: Mapping[str, tuple[Phase, ...]] = {
    "building": (Phase.BUILDING,),
    "pushing": (Phase.PUSHING,),
    "submitting": (Phase.SUBMITTING, Phase.ONE_SUBMITTING, Phase.VERTEX_SUBMITTING),
    "queued, preparing, running": (
        Phase.QUEUED,
        Phase.PREPARING,
        Phase.RUNNING,
        Phase.ONE_RUNNING,
        Phase.VERTEX_RUNNING,
    ),
    "collecting": (Phase.COLLECTING, Phase.ONE_COLLECTING, Phase.VERTEX_COLLECTING),
}
WAITS = "queued, preparing, running"
#: One phase of each group: what ``make test`` shows. ``make test-all`` shows the others, too.
WITNESSES = (Phase.BUILDING, Phase.PUSHING, Phase.SUBMITTING, Phase.RUNNING, Phase.COLLECTING)


def _row(task: Task, submitting: Outcome, waits: Outcome) -> dict[str, Outcome]:
    """
    Return a row in which the steps without a live job are alike.

    The task is ``task``; each step is done again unless the task continues.
    """

    def step(job: Job, again: Next) -> Outcome:
        return Outcome(job=job, task=task, next=Next.NONE if task is Task.CONTINUES else again)

    return {
        "building": step(Job.NONE, Next.BUILDS),
        "pushing": step(Job.NONE, Next.PUSHES),
        "submitting": submitting,
        WAITS: waits,
        "collecting": step(Job.OVER, Next.COLLECTS),
    }


def _ended(task: Task) -> dict[str, Outcome]:
    cancelled = Outcome(job=Job.CANCELLED, task=task, next=Next.SUBMITS)
    return _row(task, cancelled, cancelled)


_CONTINUES = Outcome(job=Job.KEPT, task=Task.CONTINUES, next=Next.NONE)
_ADOPTED = Outcome(job=Job.KEPT, task=Task.AGAIN, next=Next.ADOPTS)
_WAITS_AGAIN = Outcome(job=Job.KEPT, task=Task.AGAIN, next=Next.WAITS)
_UNTOUCHED = _row(Task.CONTINUES, _CONTINUES, _CONTINUES)

#: Act -> group of phases -> what is expected.
TABLE: Mapping[Act, Mapping[str, Outcome]] = {
    Act.USER_KILL: _ended(Task.FAILED),
    Act.CLEAR: _row(Task.AGAIN, Outcome(job=Job.CANCELLED, task=Task.AGAIN, next=Next.SUBMITS), _WAITS_AGAIN),
    Act.MARK_SUCCESS: _ended(Task.SUCCESS),
    Act.MARK_FAILED: _ended(Task.FAILED),
    Act.EXECUTION_TIMEOUT: _row(Task.AGAIN, _ADOPTED, _WAITS_AGAIN),
    Act.DEADLINE: _ended(Task.SKIPPED),
    Act.TRIGGERER_RESTART: _UNTOUCHED,
    Act.TRIGGERER_SIGKILL: _UNTOUCHED,
    Act.SCHEDULER_RESTART: _row(Task.AGAIN, _ADOPTED, _CONTINUES),
    Act.WORKER_SIGKILL: _row(Task.AGAIN, _ADOPTED, _WAITS_AGAIN),
    Act.SERVICE_RESTART: _UNTOUCHED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One place of the table."""

    act: Act
    phase: Phase
    expected: Outcome

    def __str__(self) -> str:
        return f"{self.act}-{self.phase}".replace(" ", "_")


def cells() -> Iterator[Cell]:
    """Yield all places of the table, row by row."""
    for act in Act:
        for group, phases in GROUPS.items():
            for phase in phases:
                yield Cell(act=act, phase=phase, expected=TABLE[act][group])
