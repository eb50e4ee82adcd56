"""
### Train with an image of another project

Access to the image is granted for as long as the job runs.

The service's account is let into the image's repository before the job, and no longer has access afterwards -
also where the job fails, a person ends its wait, or the whole run. Access that was there before stays.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from container_training.operators.registry_iam import (
    GrantRegistryAccessOperator,
    RevokeRegistryAccessOperator,
)
from container_training.operators.results import CollectTrainingResultsOperator
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.sensors.training import TrainingJobSensor

with DAG(
    dag_id="train_shared_image",
    schedule=None,
    catchup=False,
    # Runs that overlap share the grant: the first one to end would take it from the other.
    max_active_runs=1,
    tags=["container-training", "example"],
    doc_md=__doc__,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    params={
        "image": Param(type="string", minLength=1, description="HOST/PROJECT/NAME:TAG of another project"),
        "args": Param("", type="string", description="Arguments of the image, as on a command line"),
    },
):
    grant = GrantRegistryAccessOperator(task_id="grant", image="{{ params.image }}")
    submit = SubmitTrainingJobOperator(
        task_id="submit",
        image="{{ params.image }}",
        args="{{ params.args }}",
        job_dir="{{ conn.training_default.extra_dejson.job_bucket }}/{job_id}",
    )
    finished = TrainingJobSensor(task_id="wait_until_finished", job_id=submit.output)
    revoke = RevokeRegistryAccessOperator(task_id="revoke", grant=grant.output)
    collect = CollectTrainingResultsOperator(task_id="collect", job_id=submit.output)
    grant >> submit >> finished >> collect
    # A revoke that fails fails the run: access that stays behind is not to be overlooked. It does not hide a
    # job that failed, as the run also ends by ``collect``.
    finished >> revoke.as_teardown(setups=grant, on_failure_fail_dagrun=True)
