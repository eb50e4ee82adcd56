"""Writes ``docs/kill-table.md`` from the table."""

from __future__ import annotations

import sys

from tests.e2e.kill_table.table import GROUPS, TABLE, Act, Next, Outcome

_HEAD = """\
# What a kill does

What happens to the job and to the task, for every act and every phase of a pipeline, and what the next
attempt does. `make docs` makes this page from the table by which `tests/e2e/kill_table` runs each cell under the
real scheduler; do not edit it by hand.

Each cell: **the job**; the task; the next attempt. No cell leaves an orphan, a job that no task looks after: the
[search for orphans](reference/failures.md#jobs-that-no-task-waits-for) runs after the acts and finds none.

`SubmitTrainingJobOperator(wait_for_completion=True)` goes through the last three columns in one task. The same holds for it, and
its cells are run, too. So are those of jobs that are submitted by Vertex AI's API: submitting, running and collecting, with a connection
of the type `vertex_training` to this project's service. They have not been run against Google Cloud.

"""
_FOOT = """
| act | meaning |
|---|---|
| user kill | a person marks the whole DAG run as failed |
| mark success | for a wait that is the last task of its run; while later tasks are left the job is kept, as they may need it |
| dag run deadline | the DAG's `dagrun_timeout` |
| execution timeout | the task's `execution_timeout`; a waiting sensor counts it, too |
| triggerer restart, scheduler restart | SIGTERM, SIGKILL after 20 s, and a new start; a LocalExecutor runs the tasks, and its workers end with the scheduler: the new scheduler starts the next try of their tasks |
| Airflow worker SIGKILL | of the worker alone, as the kernel does it when memory is short; the next try begins when the task's heartbeat has been missed (`[scheduler] task_instance_heartbeat_timeout`). The wait has `deferrable=False`, because no worker runs a deferred one |
| training service restart | SIGKILL, and a new start |

| phase | meaning |
|---|---|
| building, pushing | `BuildImageOperator` and `PushImageOperator` in the middle of their work, with no job yet; afterwards no build and no upload continues |
| submitting | `SubmitTrainingJobOperator`: the service has the request, the task does not have the answer yet |
| queued, preparing, running | the job's state, while a deferrable `TrainingJobSensor` waits |
| collecting | `CollectTrainingResultsOperator`: its job is over, nothing can be cancelled |

The next attempt is the next try, if there is one, or the try after a person clears the task (for a wait whose
job was cancelled: `submit` with downstream tasks, or the one task). The tasks of the table have `retries` left. At the last try, a
cell that says *next try* without a person's act becomes *failed*: the job is kept for a person who clears the task,
and is an orphan until then. A second kill in the seconds that the first one takes is not in the table.
"""


def page() -> str:
    """Return the page."""
    lines = ["| | " + " | ".join(GROUPS) + " |", "|---|" + "---|" * len(GROUPS)]
    for act in Act:
        places = [_text(TABLE[act][group]) for group in GROUPS]
        lines.append(f"| {act} | " + " | ".join(places) + " |")
    return _HEAD + "\n".join(lines) + "\n" + _FOOT


def _text(outcome: Outcome) -> str:
    parts = [f"**{outcome.job}**", str(outcome.task)]
    if outcome.next is not Next.NONE:
        parts.append(str(outcome.next))
    return "; ".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
