"""
Runs the DAGs of ``lineage_dags`` in a separate Airflow, and prints one line of JSON.

It has the results, and what the consumer read.

A process of its own, as Airflow decides once, when it is loaded, whether it sends lineage events.
"""

from __future__ import annotations

import json
from typing import Any

from airflow.dag_processing.dagbag import DagBag
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.dagrun import DagRun
from airflow.sdk import DAG
from airflow.sdk.definitions.dag import _run_task
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from airflow.utils.sqlalchemy import prohibit_commit
from sqlalchemy import select


def output_of(run: Any, task_id: str) -> Any:
    """Return what a task of a run returned."""
    (task_instance,) = [found for found in run.get_task_instances() if found.task_id == task_id]
    assert task_instance.state == "success", f"{task_id} is {task_instance.state}"
    return task_instance.xcom_pull(task_ids=task_id)


def run_consumer(consumer: DAG) -> Any:
    """Let the scheduler make the run for the asset; run its task, return what it read."""
    with create_session() as session, prohibit_commit(session) as guard:
        SchedulerJobRunner(job=Job())._create_dagruns_for_dags(guard, session)
    with create_session() as session:
        runs = select(DagRun).where(DagRun.dag_id == consumer.dag_id).order_by(DagRun.id.desc())
        run = session.scalars(runs).first()
        assert run is not None
        (task_instance,) = run.get_task_instances(session=session)
        task_instance.try_number += 1
    _run_task(ti=task_instance, task=consumer.task_dict[task_instance.task_id])
    return output_of(run, task_instance.task_id)


def main() -> None:
    """Train, then train again with nothing new; after each, run the consumer."""
    initdb()
    bag = DagBag(collect_dags=True)
    assert not bag.import_errors
    producer, consumer = bag.dags["lineage_producer"], bag.dags["lineage_consumer"]
    results, read = [], []
    for _ in range(2):
        results.append(output_of(producer.test(), "collect"))
        read += run_consumer(consumer)
    print(json.dumps({"results": results, "read": read}))


if __name__ == "__main__":
    main()
