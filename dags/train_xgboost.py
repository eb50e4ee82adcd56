"""
### Train on several replicas with XGBoost

Each replica has a part of the rows, and all grow the same trees. They meet at XGBoost's own tracker, which
runs beside the master; where that is, `CLUSTER_SPEC` says (`docker/trainers/shared/replica.py`): what any
framework needs.

`framework` builds the image with XGBoost, once for all workers; the trainer's image, that of all replicas, is
made from it.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param

from container_training.operators.image import BuildImageOperator
from container_training.pipeline import training_pipeline

DOCKER = Path(__file__).parents[1] / "docker"

with DAG(
    dag_id="train_xgboost",
    schedule=None,
    catchup=False,
    tags=["container-training", "example", "distributed"],
    doc_md=__doc__,
    params={
        "epochs": Param(20, type="integer", minimum=1, maximum=1000, description="Rounds of boosting"),
        "workers": Param(
            2, type="integer", minimum=0, maximum=16, description="Replicas that train beside the master"
        ),
        "seed": Param(
            0, type="integer", minimum=0, maximum=2**31, description="Decides the split of the rows"
        ),
    },
):
    framework = BuildImageOperator(
        task_id="framework",
        context_dir=str(DOCKER / "frameworks" / "xgboost"),
        image="xgboost",
        retries=2,
    )

    training_pipeline(
        context_dir=DOCKER / "trainers",
        dockerfile="xgboost_rabit/Dockerfile",
        image="xgboost-rabit",
        build_args={"BASE_IMAGE": framework.output},
        test_args=["--epochs", "1"],
        args=["--epochs", "{{ params.epochs }}", "--seed", "{{ params.seed }}"],
        master_type="n1-standard-4",
        worker_type="n1-standard-4",
        worker_count="{{ params.workers }}",
        labels={"example": "xgboost"},
        model_file="model.json",
    )
