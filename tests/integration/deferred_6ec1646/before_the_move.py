"""The DAG of this folder. It is parsed by the code of commit 6ec1646 and by today's."""

from __future__ import annotations

from airflow.sdk import DAG

from container_training.operators.training import SubmitTrainingJobOperator
from container_training.sensors.training import TrainingJobSensor

STUDY = {
    "goal": "MAXIMIZE",
    "hyperparameterMetricTag": "accuracy",
    "maxTrials": 2,
    "maxParallelTrials": 1,
    "params": [{"parameterName": "lr", "type": "DOUBLE", "minValue": 0.1, "maxValue": 1}],
}

with DAG("before_the_move", schedule=None):
    for name in ("failing", "running", "tuning", "waiting"):
        submit = SubmitTrainingJobOperator(
            task_id=f"submit_{name}",
            job_id=name,
            image=f"registry.test/demo-project/{name}:1",
            hyperparameters=STUDY if name == "tuning" else None,
        )
        TrainingJobSensor(
            task_id=f"{name}_ends", job_id=submit.output, max_cost=1000 if name == "running" else None
        )
        TrainingJobSensor(task_id=f"{name}_starts", job_id=submit.output, until="left_queued")
