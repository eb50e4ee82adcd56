"""
From a CustomJob in canonical JSON to a ``JobSpec`` that is known to be good. Pure.

Every broken rule is reported at once, by the camelCase path of its field. Source of the rules, unless another
is named: the discovery document aiplatform.v1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from training_api.dialects.vertex_v1.job_rules import check_identity, check_job_spec
from training_api.dialects.vertex_v1.pool_tasks import task_of
from training_api.dialects.vertex_v1.pools import replicas_from_pools
from training_api.dialects.vertex_v1.scheduling import read_scheduling
from training_api.errors import InvalidJobSpec
from training_api.job.job_spec import JobSpec
from training_api.job.secret_refs import SecretRef, check_secrets, secret_refs
from training_api.job.violations import Violations

#: The dialect's name, as jobs carry it.
NAME = "vertex_v1"
#: What a client says of a CustomJob; every other field is output only, and ignored in a request.
INPUT_FIELDS = ("displayName", "jobSpec", "labels", "encryptionSpec")


def request_of(resource: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a CustomJob is the client's."""
    return {name: resource[name] for name in INPUT_FIELDS if name in resource}


def custom_job_spec(project: str, location: str, job_id: str, request: Mapping[str, Any]) -> JobSpec:
    """
    Return the validated job of a create request.

    :param job_id: given by the service.
    :param request: what ``request_of`` returns.
    :raises InvalidJobSpec: with every rule that the request breaks.
    """
    rules = Violations()
    check_identity(rules, request)
    job_spec = request.get("jobSpec")
    if job_spec is None:
        rules.add("jobSpec", "is required: the worker pools of the job")
        raise InvalidJobSpec(rules.found)
    check_job_spec(rules, job_spec)
    replicas = replicas_from_pools(rules, job_spec.get("workerPoolSpecs", []))
    scheduling = read_scheduling(rules, job_spec.get("scheduling", {}))
    labels = dict(request.get("labels", {}))
    secrets = secret_refs(labels)
    check_secrets(rules, secrets)
    _check_variables_of_secrets(rules, secrets, job_spec.get("workerPoolSpecs", []))
    if rules.found:
        raise InvalidJobSpec(rules.found)
    return JobSpec(
        project=project,
        job_id=job_id,
        replicas=replicas,
        dialect=NAME,
        labels=labels,
        max_wait=scheduling.max_wait,
        max_running=scheduling.max_running,
        restarts=scheduling.restarts,
        secrets=secrets,
        output_dir=job_spec.get("baseOutputDirectory", {}).get("outputUriPrefix", ""),
        service_account=job_spec.get("serviceAccount", ""),
        region=location,
    )


def _check_variables_of_secrets(
    rules: Violations, secrets: Iterable[SecretRef], pools: Iterable[Mapping[str, Any]]
) -> None:
    given = {each.get("name") for pool in pools for each in task_of(pool).get("env", [])}
    for ref in secrets:
        if ref.variable in given:
            rules.add(
                f"labels.{ref.label}",
                f"the variable {ref.variable} is in the env of a pool, too; name another variable for one of the two",
            )
