"""Jobs of a master and workers, each of which runs a program of Python."""

from __future__ import annotations

from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.job.image_ref import ImageRef


def runs(image: ImageRef, program: str, *arguments: str) -> ReplicaConfig:
    """Return a replica that runs a program of Python."""
    return ReplicaConfig(
        image_uri=str(image),
        container_command=["python3", "-u", "-c", program],
        container_args=list(arguments),
    )


def submit_alone(training: TrainingClient, job_id: str, master: ReplicaConfig) -> None:
    """Create a job of one replica."""
    training_input = TrainingInput(region="us-central1", master_config=master)
    training.create_job(Job(job_id=job_id, training_input=training_input))


def submit(
    training: TrainingClient, job_id: str, master: ReplicaConfig, worker: ReplicaConfig, workers: int = 1
) -> None:
    """Create a job of a master and workers."""
    training_input = TrainingInput(
        region="us-central1",
        scale_tier="CUSTOM",
        master_type="n1-standard-4",
        master_config=master,
        worker_type="n1-standard-4",
        worker_count=workers,
        worker_config=worker,
    )
    training.create_job(Job(job_id=job_id, training_input=training_input))
