"""CustomJobs of Vertex AI, as the tests send them."""

from __future__ import annotations

from typing import Any

IMAGE = "registry.test/p/i:1"
PACKAGE = "gs://bkt/trainer-0.0.0.tar.gz"


def make_pool(count: int = 1, machine_type: str = "n1-standard-4", **container: Any) -> dict[str, Any]:
    """Return a worker pool of ``count`` replicas; ``container`` is laid over its containerSpec."""
    return {
        "machineSpec": {"machineType": machine_type},
        "replicaCount": str(count),
        "containerSpec": {"imageUri": IMAGE, **container},
    }


def make_package_pool(**changes: Any) -> dict[str, Any]:
    """Return a worker pool of one replica; ``changes`` are laid over its pythonPackageSpec."""
    spec = {"executorImageUri": IMAGE, "packageUris": [PACKAGE], "pythonModule": "trainer.task", **changes}
    return {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "pythonPackageSpec": spec,
    }


def make_custom_job(
    *pools: dict[str, Any], labels: dict[str, str] | None = None, **job_spec: Any
) -> dict[str, Any]:
    """Return a CustomJob, of one replica without ``pools``; ``job_spec``: more of its jobSpec."""
    job = {"displayName": "job", "jobSpec": {"workerPoolSpecs": list(pools) or [make_pool()], **job_spec}}
    return job if labels is None else {**job, "labels": labels}
