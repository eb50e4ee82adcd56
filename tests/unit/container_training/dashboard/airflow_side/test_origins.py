"""Labels are lossy: the DAG run that a job came from is found in Airflow's own database."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from container_training.dashboard.airflow_side.rights import Rights
from container_training.dashboard.views.views import Origin
from tests.support.fakes.job_rows import make_row
from training_api.dialects.ml_v1.intent import Intent, owner_labels
from training_api.dialects.ml_v1.job_rows import JobRow
from training_api.job.job_id import TaskKey, job_id_for

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

RUN = "manual__2026-11-20T21:06:16.123456+00:00"


def origins(jobs: list[JobRow], dags: set[str], session: Session) -> dict[str, Origin]:
    from container_training.dashboard.airflow_side.origins import find_origins

    known = frozenset(dags)
    rights = Rights(known=known, readable=known, reads_all=True, may_edit=lambda dag_id: False)
    return find_origins(jobs, rights, session)


def job_of(dag_id: str, run_id: str, task_id: str, *, job_id: str = "") -> JobRow:
    key = TaskKey(dag_id=dag_id, task_id=task_id, run_id=run_id)
    labels = owner_labels(key, Intent(request_hash="0", job_id="x", owner="0"))
    return make_row(job_id=job_id or job_id_for(key, 2), labels=labels)


def test_run_with_colons_and_capitals_is_found_exactly(
    add_run: Callable[..., None], session: Session
) -> None:
    add_run("My.Dag", RUN, "train.submit", "other")
    add_run("My.Dag", RUN.replace("16", "17"), "train.submit", "other")
    job = job_of("My.Dag", RUN, "train.submit")

    found = origins([job], {"My.Dag"}, session)

    assert found == {job.job_id: Origin(dag_id="My.Dag", run_id=RUN, task_id="train.submit")}


def test_job_id_of_a_task_decides_between_runs_of_one_label(
    add_run: Callable[..., None], session: Session
) -> None:
    add_run("d", "run:1", "submit")
    add_run("d", "run+1", "submit")
    made, chosen = job_of("d", "run+1", "submit"), job_of("d", "run+1", "submit", job_id="my_own_name")

    found = origins([made, chosen], {"d"}, session)

    assert found[made.job_id] == Origin(dag_id="d", run_id="run+1", task_id="submit")
    assert found["my_own_name"] == Origin(dag_id="d")


def test_dags_of_one_label_are_told_apart_by_their_runs(
    add_run: Callable[..., None], session: Session
) -> None:
    add_run("a.b", "r1", "submit")
    add_run("a-b", "r2", "submit")
    job = job_of("a-b", "r2", "submit")

    found = origins([job], {"a.b", "a-b"}, session)

    assert found == {job.job_id: Origin(dag_id="a-b", run_id="r2", task_id="submit")}


def test_long_run_id_is_found_though_its_label_is_cut(add_run: Callable[..., None], session: Session) -> None:
    long = "by_hand__" + "x" * 60
    add_run("d", long + ":1", "submit")
    add_run("d", long + ":2", "submit")
    job = job_of("d", long + ":2", "submit", job_id="mine")

    assert origins([job], {"d"}, session) == {
        "mine": Origin(dag_id="d", run_id=long + ":2", task_id="submit")
    }


def test_run_that_is_gone_leaves_the_dag_and_a_job_of_nobody_nothing(
    add_run: Callable[..., None], session: Session
) -> None:
    add_run("d", "here", "submit")
    gone, nobodys = job_of("d", "gone", "submit"), make_row(job_id="by_gcloud")

    found = origins([gone, nobodys], {"d"}, session)

    assert found == {gone.job_id: Origin(dag_id="d")}


def test_underscores_and_percents_of_a_run_id_are_no_wildcards_in_the_end(
    add_run: Callable[..., None], session: Session
) -> None:
    add_run("d", "a_b", "submit")
    add_run("d", "axb", "submit")
    job = job_of("d", "a_b", "submit", job_id="mine")

    assert origins([job], {"d"}, session)["mine"].run_id == "a_b"
