"""From the Airflow connections that a plan names to the places where it looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from container_training.hooks.image import ImageHook, open_build_context
from container_training.hooks.registry_iam import RegistryIamHook
from container_training.hooks.training import TrainingHook
from container_training.work.plan.plan import PlanInputs
from container_training.work.plan.planning import PlanSources
from container_training.work.submission.job_attempt import JOB_ID_MARK


def planned_build_args(
    context_dir: str | None, dockerfile: str, build_args: Mapping[str, str] | None, training_conn_id: str
) -> Mapping[str, str]:
    """
    Return the build arguments of a build, the connection's base image included.

    :raises BuildContextMissing: there is no such folder, or no Dockerfile in it.
    """
    if not context_dir:
        return build_args or {}
    return open_build_context(
        context_dir, dockerfile=dockerfile, build_args=build_args, training_conn_id=training_conn_id
    ).build_args


@contextmanager
def plan_sources(inputs: PlanInputs) -> Iterator[PlanSources]:
    """
    Yield the clients of the connections of ``inputs``; close them afterwards.

    :raises InvalidConnection: a connection lacks a field.
    """
    with (
        TrainingHook(inputs.training_conn_id) as training,
        RegistryIamHook(inputs.training_conn_id, inputs.gcp_conn_id) as policies,
        ImageHook(inputs.docker_conn_id, docker_url=inputs.docker_url) as images,
    ):
        bucket = training.job_bucket
        yield PlanSources(
            training=training.client,
            policies=policies.client,
            engine=images.get_conn,
            find_login=images.find_login,
            prices=training.prices,
            endpoint=training.endpoint,
            project=training.project,
            default_job_dir=f"{bucket}/{JOB_ID_MARK}" if bucket else None,
            registry=training.registry,
        )
