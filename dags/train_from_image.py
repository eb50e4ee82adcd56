"""
### Train with an image that exists

The smallest use of the operators: submit a job, wait for its end, collect its results. The image is one that
the connection's project may pull; its arguments are split as a shell would.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from container_training.operators.results import CollectTrainingResultsOperator
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.sensors.training import TrainingJobSensor

with DAG(
    dag_id="train_from_image",
    schedule=None,
    catchup=False,
    tags=["container-training", "example"],
    doc_md=__doc__,
    params={
        "image": Param(type="string", minLength=1, description="HOST/PROJECT/NAME:TAG, better @sha256:..."),
        "args": Param("", type="string", description="Arguments of the image, as on a command line"),
        "job_dir": Param(
            "",
            type="string",
            pattern="^(gs://.+)?$",
            description="gs:// folder for the results; empty: the connection's job_bucket, one folder a job",
        ),
    },
):
    submit = SubmitTrainingJobOperator(
        task_id="submit",
        image="{{ params.image }}",
        args="{{ params.args }}",
        job_dir="{{ params.job_dir or conn.training_default.extra_dejson.job_bucket ~ '/{job_id}' }}",
    )
    finished = TrainingJobSensor(task_id="wait_until_finished", job_id=submit.output)
    collect = CollectTrainingResultsOperator(task_id="collect", job_id=submit.output)
    submit >> finished >> collect
