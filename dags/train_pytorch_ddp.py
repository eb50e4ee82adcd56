"""
### Train on several replicas with PyTorch

`torch.distributed` over gloo: the master and the workers each take a part of every batch, and exchange their
gradients. Rank and world size come from `CLUSTER_SPEC` (`docker/trainers/shared/replica.py`). The metrics say
how far the exchanged gradient is from that of one process on the whole batch.

`framework` builds the image with PyTorch, once for all workers; the trainer's image, that of all replicas, is
made from it.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param

from container_training.operators.image import BuildImageOperator
from container_training.pipeline import training_pipeline

DOCKER = Path(__file__).parents[1] / "docker"

with DAG(
    dag_id="train_pytorch_ddp",
    schedule=None,
    catchup=False,
    tags=["container-training", "example", "distributed"],
    doc_md=__doc__,
    params={
        "epochs": Param(
            10, type="integer", minimum=1, maximum=1000, description="Passes over the training rows"
        ),
        "workers": Param(
            2, type="integer", minimum=0, maximum=16, description="Replicas that train beside the master"
        ),
        "seed": Param(
            0, type="integer", minimum=0, maximum=2**31, description="Decides the split and the first weights"
        ),
    },
):
    framework = BuildImageOperator(
        task_id="framework",
        context_dir=str(DOCKER / "frameworks" / "pytorch"),
        image="pytorch",
        retries=2,
    )

    training_pipeline(
        context_dir=DOCKER / "trainers",
        dockerfile="pytorch_ddp/Dockerfile",
        image="pytorch-ddp",
        build_args={"BASE_IMAGE": framework.output},
        test_args=["--epochs", "1"],
        args=["--epochs", "{{ params.epochs }}", "--seed", "{{ params.seed }}", "--check-gradient"],
        master_type="n1-standard-4",
        worker_type="n1-standard-4",
        worker_count="{{ params.workers }}",
        labels={"example": "pytorch-ddp"},
        model_file="model.pt",
    )
