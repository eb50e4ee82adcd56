"""
### From data to a registered model in five jobs

Prepare the data, tune, train the best configuration with several replicas, evaluate, register. `prepare`
holds out rows, which `evaluate` alone gets; `tune` and `train` get the others. Every step is a job on the
image that `image` made, and passes on its files by generation: `prepare.collect` returns
`gs://.../train.npz#GENERATION`.

To resume after a failed step, clear its `submit` task with downstream tasks. The steps before it are not run
again.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Param

from container_training.operators.image import BuildImageOperator, PushImageOperator, TestImageOperator
from container_training.operators.models import RegisterModelOperator
from container_training.operators.registry_iam import GrantRegistryAccessOperator
from container_training.step import training_step

DOCKER = Path(__file__).parents[1] / "docker"
MODEL_FOLDER = "{{ conn.training_default.extra_dejson.job_bucket }}/models/digits-xgboost"
SEED = ["--seed", "{{ params.seed }}"]
LABELS = {"example": "multi-step"}

with DAG(
    dag_id="multi_step_pipeline",
    schedule=None,
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    tags=["container-training", "example", "tuning", "distributed"],
    doc_md=__doc__,
    params={
        "trials": Param(4, type="integer", minimum=1, maximum=200, description="Configurations to try"),
        "trial_epochs": Param(
            5, type="integer", minimum=1, maximum=1000, description="Rounds of boosting of each trial"
        ),
        "epochs": Param(
            20, type="integer", minimum=1, maximum=1000, description="Rounds of the final training"
        ),
        "workers": Param(
            1, type="integer", minimum=0, maximum=16, description="Replicas that train beside the master"
        ),
        "seed": Param(
            0, type="integer", minimum=0, maximum=2**31, description="Decides the split of the trials' rows"
        ),
    },
):
    framework = BuildImageOperator(
        task_id="framework",
        context_dir=str(DOCKER / "frameworks" / "xgboost"),
        image="xgboost",
    )
    build = BuildImageOperator(
        task_id="build",
        context_dir=str(DOCKER / "trainers"),
        dockerfile="xgboost_rabit/Dockerfile",
        image="xgboost-rabit",
        build_args={"BASE_IMAGE": framework.output},
    )
    test = TestImageOperator(task_id="test", image=build.output, args=["--epochs", "1"])
    image = PushImageOperator(task_id="push", image=build.output)
    grant = GrantRegistryAccessOperator(task_id="grant", image=image.output)

    prepare = training_step("prepare", image=image.output, command=["python", "prepare.py"], labels=LABELS)
    tune = training_step(
        "tune",
        image=image.output,
        args=["--data", prepare.file("train.npz"), "--epochs", "{{ params.trial_epochs }}", *SEED],
        model_file="model.json",
        hyperparameters={
            "goal": "MAXIMIZE",
            "hyperparameterMetricTag": "accuracy",
            "maxTrials": "{{ params.trials }}",
            "maxParallelTrials": 2,
            "params": [
                {
                    "parameterName": "learning-rate",
                    "type": "DOUBLE",
                    "minValue": 0.05,
                    "maxValue": 1.0,
                    "scaleType": "UNIT_LOG_SCALE",
                },
                {"parameterName": "max-depth", "type": "INTEGER", "minValue": 2, "maxValue": 6},
            ],
        },
        labels=LABELS,
    )
    train = training_step(
        "train",
        image=image.output,
        args=[
            tune.best_trial_args,
            "--epochs",
            "{{ params.epochs }}",
            "--data",
            prepare.file("train.npz"),
            "--all-rows",
        ],
        model_file="model.json",
        master_type="n1-standard-4",
        worker_type="n1-standard-4",
        worker_count="{{ params.workers }}",
        labels=LABELS,
    )
    evaluate = training_step(
        "evaluate",
        image=image.output,
        command=["python", "evaluate.py"],
        args=["--model", train.file("model.json"), "--data", prepare.file("holdout.npz")],
        labels=LABELS,
    )
    register = RegisterModelOperator(
        task_id="register",
        model_folder=MODEL_FOLDER,
        result=train.result,
        evaluation=evaluate.result,
        split=prepare.result,
    )
    build >> test >> image >> grant
    grant >> prepare.group >> tune.group >> train.group >> evaluate.group >> register
