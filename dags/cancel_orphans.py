"""
### Cancel jobs that no task waits for

A job outlives its DAG run if a wait gave up or was marked as successful, or if its worker died without a
retry. This DAG searches for such jobs every ten minutes and cancels them; with `cancel` off it only lists
them. It is paused at first; unpause it in Airflow.

The connection `airflow_api_default` has the address and login of Airflow's own REST API.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from container_training.operators.orphans import CancelOrphanJobsOperator

with DAG(
    dag_id="cancel_orphans",
    schedule=timedelta(minutes=10),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=True,
    tags=["container-training", "maintenance"],
    doc_md=__doc__,
    params={
        "cancel": Param(True, type="boolean", description="Cancel what is found; else only list it"),
        "grace_seconds": Param(300, type="number", minimum=0, description="Leave younger jobs alone"),
    },
):
    CancelOrphanJobsOperator(
        task_id="cancel_orphans",
        cancel="{{ params.cancel }}",
        grace="{{ params.grace_seconds }}",
        retries=2,
        retry_delay=timedelta(seconds=30),
    )
