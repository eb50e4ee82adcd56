"""
### Tune a classifier of handwritten digits, then train the best one in full

The trainer in `docker/trainers/digits` is built, tested and pushed, as in `train_digits`. The job that is
submitted searches: each of its trials trains a few epochs with another learning rate, width and activation,
and reports its accuracy with `cloudml-hypertune`. The log of `tune.wait_until_finished` says how far the
trials are, `tune.collect` returns the best one and a table of all, and `tune.plot` writes two plots beside
them. A second job trains the best configuration for all epochs.

`max_cost` ends the search once it has cost this much, at the prices of the connection `training_default`
(extra `prices`).
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param

from container_training.operators.results import CollectTrainingResultsOperator
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.pipeline import training_pipeline
from container_training.sensors.training import TrainingJobSensor

TRAINER = Path(__file__).parents[1] / "docker" / "trainers" / "digits"
SEED = ["--seed", "{{ params.seed }}"]

with DAG(
    dag_id="tune_digits",
    schedule=None,
    catchup=False,
    tags=["container-training", "example", "tuning"],
    doc_md=__doc__,
    params={
        "trials": Param(8, type="integer", minimum=1, maximum=200, description="Configurations to try"),
        "parallel_trials": Param(
            4, type="integer", minimum=1, maximum=16, description="Trials that run at a time"
        ),
        "trial_epochs": Param(
            5, type="integer", minimum=1, maximum=1000, description="Passes over the rows of each trial"
        ),
        "epochs": Param(
            30, type="integer", minimum=1, maximum=1000, description="Passes of the final training"
        ),
        "max_cost": Param(
            None,
            type=["number", "null"],
            exclusiveMinimum=0,
            description="End the search at this cost; the connection must have prices then",
        ),
        "seed": Param(
            0,
            type="integer",
            minimum=0,
            maximum=2**32 - 1,
            description="Decides the split and the first weights",
        ),
    },
):
    tune = training_pipeline(
        group_id="tune",
        context_dir=TRAINER,
        image="digits",
        test_args=["--epochs", "1"],
        args=["--epochs", "{{ params.trial_epochs }}", *SEED],
        hyperparameters={
            "goal": "MAXIMIZE",
            "hyperparameterMetricTag": "accuracy",
            "maxTrials": "{{ params.trials }}",
            "maxParallelTrials": "{{ params.parallel_trials }}",
            "params": [
                {
                    "parameterName": "learning-rate",
                    "type": "DOUBLE",
                    "minValue": 0.0001,
                    "maxValue": 0.1,
                    "scaleType": "UNIT_LOG_SCALE",
                },
                {
                    "parameterName": "hidden-units",
                    "type": "INTEGER",
                    "minValue": 8,
                    "maxValue": 256,
                    "scaleType": "UNIT_LOG_SCALE",
                },
                {
                    "parameterName": "activation",
                    "type": "CATEGORICAL",
                    "categoricalValues": ["relu", "tanh", "logistic"],
                },
            ],
        },
        max_cost="{{ params.max_cost or '' }}",
        labels={"example": "digits"},
    )

    submit = SubmitTrainingJobOperator(
        task_id="submit_best",
        image=tune.push.output,
        args=[tune.best_trial_args, "--epochs", "{{ params.epochs }}", *SEED],
        job_dir="{{ conn.training_default.extra_dejson.job_bucket }}/{job_id}",
        labels={"example": "digits"},
    )
    finished = TrainingJobSensor(task_id="wait_for_best", job_id=submit.output)
    collect = CollectTrainingResultsOperator(task_id="collect_best", job_id=submit.output)
    submit >> finished >> collect
