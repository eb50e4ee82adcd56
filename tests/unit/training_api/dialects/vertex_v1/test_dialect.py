"""The value that the dialect is."""

from __future__ import annotations

from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.vertex_v1.dialect import VERTEX_V1
from training_api.job.cluster import ReplicaRole


def test_it_names_every_field_that_the_service_may_speak_of() -> None:
    """But an earlier study, as no field resumes one, and packages, which each pool has."""
    of_pools = {f"installs.{role}.uris" for role in ReplicaRole}

    assert VERTEX_V1.fields.keys() - of_pools == ML_V1.fields.keys() - {
        "study.resume_job_id",
        "packages.uris",
    }
    assert VERTEX_V1.path("installs.worker.uris[2]") == (
        "jobSpec.workerPoolSpecs[1].pythonPackageSpec.packageUris[2]"
    )
