"""
A DAG that trains and publishes an asset, and one that runs on it.

The variables ``LINEAGE_*`` have their settings.
"""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import DAG, Asset, task

from container_training.operators.image import PushImageOperator
from container_training.operators.results import CollectTrainingResultsOperator
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.sensors.training import TrainingJobSensor

MODEL = Asset("lineage_model")
DATA = os.environ.get("LINEAGE_DATA", "")

with DAG("lineage_producer", schedule=None):
    push = PushImageOperator(task_id="push", image=os.environ.get("LINEAGE_IMAGE", ""))
    submit = SubmitTrainingJobOperator(
        task_id="submit",
        image=push.output,
        command=["python3", "-c", os.environ.get("LINEAGE_TRAINER", "")],
        args=["--data", DATA],
        data_uris=[DATA],
        job_dir=f"{os.environ.get('LINEAGE_JOB_BUCKET', '')}/{{job_id}}",
        reuse_results=True,
    )
    finished = TrainingJobSensor(task_id="finished", job_id=submit.output)
    collect = CollectTrainingResultsOperator(
        task_id="collect", job_id=submit.output, reused=submit.output["reused"], outlets=[MODEL]
    )
    push >> submit >> finished >> collect

with DAG("lineage_consumer", schedule=[MODEL], is_paused_upon_creation=False):

    @task
    def read(triggering_asset_events: Any = None) -> list[dict[str, Any]]:
        """Return what each event says of its model."""
        return [dict(event.extra) for event in triggering_asset_events[MODEL]]

    read()
