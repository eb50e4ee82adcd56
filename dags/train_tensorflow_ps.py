"""
### Train on several replicas with TensorFlow

A `ParameterServerStrategy`: the chief (the master) hands out steps to the workers, and the parameter servers
keep the variables. The roles come from `TF_CONFIG`, where the master is the `chief`, as
`use_chief_in_tf_config` asks.

`framework` builds the image with TensorFlow, once for all workers. From it the images of master, workers and
parameter servers are built in parallel, each from its own Dockerfile.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param

from container_training.operators.image import BuildImageOperator
from container_training.pipeline import RoleImage, training_pipeline

DOCKER = Path(__file__).parents[1] / "docker"

with DAG(
    dag_id="train_tensorflow_ps",
    schedule=None,
    catchup=False,
    tags=["container-training", "example", "distributed"],
    doc_md=__doc__,
    params={
        "epochs": Param(
            10, type="integer", minimum=1, maximum=1000, description="Passes over the training rows"
        ),
        "workers": Param(
            2, type="integer", minimum=1, maximum=16, description="Replicas that compute gradients"
        ),
        "parameter_servers": Param(
            1, type="integer", minimum=1, maximum=4, description="Replicas that keep the variables"
        ),
        "seed": Param(
            0, type="integer", minimum=0, maximum=2**31, description="Decides the split and the first weights"
        ),
    },
):
    framework = BuildImageOperator(
        task_id="framework",
        context_dir=str(DOCKER / "frameworks" / "tensorflow"),
        image="tensorflow",
        retries=2,
    )

    training_pipeline(
        context_dir=DOCKER / "trainers",
        dockerfile="tensorflow_ps/Dockerfile-master",
        image="tensorflow-ps",
        build_args={"BASE_IMAGE": framework.output},
        images={
            "worker": RoleImage(dockerfile="tensorflow_ps/Dockerfile-worker"),
            "parameter_server": RoleImage(dockerfile="tensorflow_ps/Dockerfile-ps"),
        },
        test_args=["--epochs", "1"],
        args=["--epochs", "{{ params.epochs }}", "--seed", "{{ params.seed }}"],
        master_type="n1-standard-4",
        worker_type="n1-standard-4",
        worker_count="{{ params.workers }}",
        parameter_server_type="n1-standard-4",
        parameter_server_count="{{ params.parameter_servers }}",
        use_chief_in_tf_config=True,
        labels={"example": "tensorflow-ps"},
        model_file="model/saved_model.pb",
    )
