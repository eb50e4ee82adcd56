"""Whether the service agent may pull a job's images, by their policies."""

from __future__ import annotations

from collections.abc import Iterator

from container_training.work.preflight.report import Check, PreflightRow, Verdict
from training_api.clients.iam import IamPoliciesClient
from training_api.errors import ResourceNotFound, TrainingError
from training_api.iam.grants import Grant, access_need
from training_api.iam.pulling import may_pull
from training_api.iam.registry_resources import (
    PolicyResource,
    ResourceKind,
    project_resource,
    registry_resource,
)
from training_api.job.image_ref import ImageRef
from training_api.job.job_spec import JobSpec


def image_access_rows(
    spec: JobSpec, agent: str, policies: IamPoliciesClient, registry: str = ""
) -> Iterator[PreflightRow]:
    """
    Yield a row for each image of a job, once.

    :param agent: address of the service agent, which pulls all images, also those of jobs that run as another
        account [docs: Vertex AI, general/custom-service-account].
    :param registry: the service's own, where it is not on loopback.
    """
    images = {replica.image.name: replica.image for replica in spec.replicas}
    for name, image in images.items():
        result, why = _answer(image, spec.project, agent, policies, registry)
        yield PreflightRow(check=Check.IMAGE_ACCESS, where=name, result=result, why=why)


def _answer(
    image: ImageRef, project: str, agent: str, policies: IamPoliciesClient, registry: str
) -> tuple[Verdict, str]:
    try:
        need = access_need(image, project, agent, registry=registry)
        resource = registry_resource(image, registry)
    except TrainingError as error:  # no repository in its name
        return Verdict.FAILED, str(error)
    if resource is None:
        return Verdict.NOT_CHECKED, need.reason
    try:
        if need.grant is None:
            return _of_own_project(resource, need.reason, policies)
        return _of_other_project(resource, need.grant, policies)
    except ResourceNotFound as error:
        hint = "EnsureRepositoryOperator makes a repository, a push an image in it"
        return Verdict.FAILED, f"{resource.name} does not exist: {error}; {hint}"


def _of_own_project(
    resource: PolicyResource, reason: str, policies: IamPoliciesClient
) -> tuple[Verdict, str]:
    """Check only that the resource is there. :raises ResourceNotFound: it is not."""
    try:
        policies.get_policy(resource.kind, resource.name)
    except ResourceNotFound:
        raise
    except TrainingError as error:
        return Verdict.OK, f"{reason}; whether {resource.name} exists could not be read: {error}"
    return Verdict.OK, reason


def _of_other_project(
    resource: PolicyResource, grant: Grant, policies: IamPoliciesClient
) -> tuple[Verdict, str]:
    """
    Ask the resource's own policy, then that of its project.

    :raises ResourceNotFound: the resource is not there.
    """
    way_out = f"let GrantRegistryAccessOperator run before, or run: {grant.gcloud_command()}"
    doubts: list[str] = []
    for each in dict.fromkeys((resource, project_resource(resource.project))):
        try:
            may = may_pull(policies.get_policy(each.kind, each.name), grant.member, resource.kind)
        except TrainingError as error:
            if isinstance(error, ResourceNotFound) and each.kind is not ResourceKind.PROJECT:
                raise
            doubts.append(f"the policy of {each.name} could not be read: {error}")
            continue
        if may:
            return Verdict.OK, f"the policy of {each.name} lets {grant.member} pull"
        if may is None:
            doubts.append(
                f"the policy of {each.name} leaves it to a condition, a group or a custom role whether "
                f"{grant.member} may pull"
            )
    if doubts:
        return Verdict.NOT_CHECKED, f"{'; '.join(doubts)}; to be sure, {way_out}"
    return Verdict.FAILED, (
        f"{grant.member} may not pull: neither the policy of {resource.name} nor that of its project lets it; "
        f"{way_out}"
    )
