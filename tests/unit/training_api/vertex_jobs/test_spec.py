"""What a job is on Vertex AI, beside the request that makes it."""

from __future__ import annotations

import pytest

from tests.support.fakes.described_jobs import IMAGE, make_custom, make_job
from training_api.errors import InvalidJobSpec
from training_api.job.accelerators import Accelerator
from training_api.vertex_jobs.options import VertexOptions
from training_api.vertex_jobs.spec import vertex_job_spec


def test_a_machine_that_ml_does_not_have_is_known_with_its_accelerators() -> None:
    spec = vertex_job_spec("p", make_custom("g2-standard-24"))

    (replica,) = spec.replicas
    assert (replica.machine.name, replica.gpus, replica.gpu) == ("g2-standard-24", 2, Accelerator.NVIDIA_L4)
    assert (str(replica.image), spec.packages) == (IMAGE, None)


def test_roles_have_their_own_machines() -> None:
    job = make_job(
        scaleTier="CUSTOM",
        masterType="n1-standard-4",
        workerType="e2-standard-8",
        workerCount=2,
        parameterServerType="n2-standard-4",
        parameterServerCount=1,
    )

    spec = vertex_job_spec("p", job)

    assert [(each.replica.role.value, each.machine.name) for each in spec.replicas] == [
        ("master", "n1-standard-4"),
        ("worker", "e2-standard-8"),
        ("worker", "e2-standard-8"),
        ("ps", "n2-standard-4"),
    ]


def test_packages_run_in_the_image_of_an_executor() -> None:
    job = make_job(masterConfig={}, packageUris=["gs://bucket/t.tar.gz"], pythonModule="t.task")

    spec = vertex_job_spec("p", job, VertexOptions.of({"executor_image_uri": IMAGE}))

    assert [str(each.image) for each in spec.replicas] == [IMAGE]
    assert spec.packages is not None
    assert (spec.packages.uris, spec.packages.module) == (("gs://bucket/t.tar.gz",), "t.task")


@pytest.mark.parametrize("machine", ["standard_gpu", "n9-standard-4"])
def test_what_vertex_ai_does_not_have_is_refused(machine: str) -> None:
    with pytest.raises(InvalidJobSpec, match=r"trainingInput\.masterType"):
        vertex_job_spec("p", make_custom(machine))
