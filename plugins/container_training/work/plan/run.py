"""Carry out a plan, if all is still as it was planned."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from container_training.work.plan.plan import Plan, stale_reasons
from container_training.work.plan.planning import PlanSources, make_plan
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import JobNotFound, PlanIsStale, TransportError
from training_api.iam.grants import Grant


def apply_plan(plan: Plan, sources: PlanSources, now: datetime, on_line: Callable[[str], None]) -> Job:
    """
    Build, push, grant and submit what ``plan`` says; return the job.

    The plan is made again first. If that is not the same plan, nothing is done.

    :param on_line: called with each line of progress.
    :raises PlanIsStale: with everything that changed since.
    :raises TrainingError: a step failed; the steps before it stay done, and a new plan takes them into
        account.
    """
    fresh = make_plan(plan.inputs.model_copy(update={"job_id": plan.job_id}), sources, now)
    if reasons := stale_reasons(plan, fresh):
        raise PlanIsStale(reasons)
    job = Job.model_validate(plan.request)
    if plan.built_image is not None and plan.built_image.actions:
        job = _with_image(job, _build_and_push(plan, sources, on_line))
    _grant(plan, sources, on_line)
    created = _submit(job, sources)
    on_line(f"job {created.job_id} was submitted")
    return created


def _build_and_push(plan: Plan, sources: PlanSources, on_line: Callable[[str], None]) -> str:
    """Return the image by digest."""
    from container_training.work.images.build_context import open_context
    from container_training.work.images.image_builder import build_image
    from container_training.work.images.pusher import push_image

    inputs = plan.inputs
    engine = sources.engine()
    context = open_context(
        inputs.context_dir or "", dockerfile=inputs.dockerfile, build_args=inputs.build_args
    )
    built = build_image(engine, context, inputs.image or "", on_line=on_line, find_login=sources.find_login)
    planned = plan.built_image.ref if plan.built_image else None
    if str(built.ref) != planned:
        raise PlanIsStale([f"the build context changed while it was read: {planned} became {built.ref}"])
    return str(push_image(engine, built.ref, on_line=on_line, find_login=sources.find_login).ref)


def _with_image(job: Job, image: str) -> Job:
    """Return ``job`` with the master's image by digest."""
    wire = job.to_wire()
    wire["trainingInput"]["masterConfig"]["imageUri"] = image
    return Job.model_validate(wire)


def _grant(plan: Plan, sources: PlanSources, on_line: Callable[[str], None]) -> None:
    for access in plan.access:
        if not access.is_granted_by_plan:
            continue
        grant = Grant.from_json(access.model_dump())

        def change(policy: dict[str, object], grant: Grant = grant) -> dict[str, object] | None:
            return None if grant.is_in(policy) else grant.added_to(policy)

        sources.policies.edit_policy(grant.kind, grant.resource, change)  # type: ignore[arg-type]
        on_line(access.reason)


def _submit(job: Job, sources: PlanSources) -> Job:
    """Submit ``job`` once; where the answer is lost, look for it."""
    try:
        return sources.training.create_job(job)
    except TransportError:
        try:
            found = sources.training.get_job(job.job_id or "")
        except JobNotFound:
            found = None
        if found is None or found.training_input != job.training_input:
            raise
        return found
