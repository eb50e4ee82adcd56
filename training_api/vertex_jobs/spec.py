"""A job in ml.v1's words as Vertex AI would run it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from training_api.dialects.ml_v1.reader import accepted_job_spec
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.dialects.ml_v1.roles import machines_of
from training_api.dialects.vertex_v1.pool_machines import read_machine
from training_api.job.job_spec import JobSpec
from training_api.job.packages.python_package import PythonPackages
from training_api.job.replica_spec import ReplicaSpec
from training_api.job.violations import Violations
from training_api.vertex_jobs.options import NO_OPTIONS, VertexOptions
from training_api.vertex_jobs.pools import in_rules_of_ml, is_of_packages
from training_api.vertex_jobs.writer import vertex_request


def vertex_job_spec(project: str, job: Job, options: VertexOptions = NO_OPTIONS) -> JobSpec:
    """
    Return what ``job`` is on Vertex AI: its replicas have the machines of that API.

    :raises InvalidJobSpec: with every rule that the job breaks, and everything that Vertex AI does not have.
    """
    request = vertex_request(job, options)
    training = job.training_input or TrainingInput()
    adapted = in_rules_of_ml(Violations(), training, options)  # the request was made, so it breaks none
    spec = accepted_job_spec(project, job.model_copy(update={"training_input": adapted}))
    job_spec = request.body.get("trialJobSpec") or request.body["jobSpec"]
    pools = {
        role.fields.role: pool
        for role, pool in zip(machines_of(training), job_spec["workerPoolSpecs"], strict=False)
    }
    return replace(
        spec,
        replicas=tuple(
            _on_its_machine(each, pools[each.replica.role]["machineSpec"]) for each in spec.replicas
        ),
        packages=_packages(training),
    )


def _on_its_machine(replica: ReplicaSpec, machine_spec: Mapping[str, Any]) -> ReplicaSpec:
    machine = read_machine(Violations(), "", machine_spec)
    if machine is None:
        return replica
    return replace(replica, machine=machine.type, gpus=machine.gpus, gpu=machine.gpu)


def _packages(training: TrainingInput) -> PythonPackages | None:
    if not is_of_packages(training):
        return None
    return PythonPackages(
        uris=tuple(training.package_uris or ()),
        module=training.python_module or "",
        runtime_version="",
        python_version="",
    )
