"""Which job a task's tab shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from training_api.job.job_id import TaskKey

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

KEY = TaskKey(dag_id="d", run_id="r", task_id="t")
JOB = {"jobId": "pushed", "trainingInput": {}}


@pytest.mark.parametrize(
    ("fields", "pushed", "expected"),
    [
        ({"job_id": "waited_for", "training_conn_id": "other"}, None, ("waited_for", "other")),
        ({"job_id": "waited_for"}, None, ("waited_for", "training_default")),
        ({"job_id": "first", "training_conn_id": "other"}, JOB, ("pushed", "other")),
        ({"job_id": None}, JOB, ("pushed", "training_default")),
        ({"job_id": "None"}, None, None),
        ({}, {"jobId": "x"}, None),
        ({}, "[1]", None),
        ({}, "no json", None),
        ({}, None, None),
    ],
)
def test_pushed_job_counts_then_the_argument(
    add_run: Callable[..., None],
    session: Session,
    fields: dict[str, Any],
    pushed: Any,
    expected: tuple[str, str] | None,
) -> None:
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.xcom import XComModel
    from sqlalchemy import insert

    from container_training.dashboard.airflow_side.task_jobs import job_of_task

    add_run("d", "r", "t")
    own = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1}
    session.execute(insert(RenderedTaskInstanceFields).values(**own, rendered_fields=fields))
    if pushed is not None:
        XComModel.set(key="job", value=pushed, **own, session=session)

    found = job_of_task(KEY, session)

    assert (found and (found.job_id, found.conn_id)) == expected


def test_task_that_never_ran_has_no_job(session: Session) -> None:
    from container_training.dashboard.airflow_side.task_jobs import job_of_task

    assert job_of_task(KEY, session) is None
