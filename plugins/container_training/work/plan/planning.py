"""
Make a plan: look at everything that a training run would touch, and change none of it.

Only what reads is called here: files, ``inspect`` and ``list`` of the engine, manifests of the registry,
``getIamPolicy``, ``projects.getConfig`` and ``jobs.get``. Nothing is pulled either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, cast

from container_training.work.plan.images import built_image, job_images, name_in_request
from container_training.work.plan.plan import (
    Plan,
    PlanInputs,
    PlannedAccess,
    PlannedCost,
    PlannedImage,
    PlannedMachines,
)
from container_training.work.submission.job_attempt import for_attempt
from container_training.work.submission.job_file_reader import load_job_file
from container_training.work.submission.job_request import JobFields, job_request
from training_api.clients.backend import TrainingBackend
from training_api.clients.iam import IamPoliciesClient
from training_api.dialects.ml_v1.cost import PriceList
from training_api.dialects.ml_v1.intent import request_hash
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.errors import (
    InvalidPrice,
    JobNotFound,
    ResourceNotFound,
)
from training_api.iam.grants import access_need
from training_api.job.job_spec import JobSpec
from training_api.job.packages.python_package import runtime_of

if TYPE_CHECKING:
    from docker.api import APIClient

    from container_training.work.images.registry import FindLogin

_HOUR_SECONDS = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSources:
    """
    Where a plan looks, and what its connections say.

    :param endpoint: of the training service.
    :param engine: connects to the Docker Engine; only called if an image is built.
    :param default_job_dir: the job folder where nothing else names one; ``{job_id}`` in it stands for the
        job's id.
    :param registry: the service's own, where it is not on loopback.
    """

    training: TrainingBackend
    policies: IamPoliciesClient
    engine: Callable[[], APIClient]
    find_login: FindLogin
    prices: PriceList
    endpoint: str
    project: str
    default_job_dir: str | None = None
    registry: str = ""


def make_plan(inputs: PlanInputs, sources: PlanSources, now: datetime) -> Plan:
    """
    Return what a run of ``inputs`` would do at ``now``; nothing is changed anywhere.

    :raises InvalidJobSpec: the job file or the job breaks rules; all of them.
    :raises ImageNotFound: the engine lacks a base image, without which the image's tag cannot be known.
    :raises BuildContextMissing: no build context, or no Dockerfile in it.
    :raises EngineUnavailable: an image is to be built, and no engine answers.
    :raises TransportError: the service, or an API of policies, does not answer.
    :raises AccessDenied: it refuses to be read.
    """
    built = built_image(inputs, sources.engine, sources.find_login) if inputs.context_dir else None
    job = _request(inputs, sources, built, now)
    spec = sources.training.check_job(job)
    file = Path(inputs.config_file) if inputs.config_file else None
    return Plan(
        created_at=now,
        service=sources.endpoint,
        project=sources.project,
        inputs=inputs,
        config_sha256=hashlib.sha256(file.read_bytes()).hexdigest() if file else None,
        request=job.to_wire(),
        images=[*job_images(spec, built, sources.find_login)],
        access=[*_access(spec, sources)],
        machines=[*_machines(spec)],
        cost=_cost(job, spec, sources.prices),
        blockers=[*_blockers(job, sources)],
    ).sealed()


def _request(inputs: PlanInputs, sources: PlanSources, built: PlannedImage | None, now: datetime) -> Job:
    fields = cast(JobFields, {"default_job_dir": sources.default_job_dir, **inputs.fields})
    if built is not None:
        fields = {**fields, "image": name_in_request(built)}
    file = load_job_file(Path(inputs.config_file)) if inputs.config_file else None
    job = job_request(inputs.job, fields, file)
    made_up = f"job_{now:%Y%m%d_%H%M%S}_{request_hash(job)[:6]}"
    return for_attempt(job, inputs.job_id or job.job_id or made_up, {})


def _access(spec: JobSpec, sources: PlanSources) -> Iterator[PlannedAccess]:
    """Yield what each repository of the job needs, once."""
    agent = sources.training.service_agent()
    seen: set[str] = set()
    for image in (replica.image for replica in spec.replicas):
        if runtime_of(image) is not None or image.name in seen:
            continue
        seen.add(image.name)
        need = access_need(image, sources.project, agent, registry=sources.registry)
        if need.grant is None:
            yield PlannedAccess(
                image=image.name, member=need.member, is_granted_by_plan=False, reason=need.reason
            )
            continue
        grant = need.grant
        has = f"{grant.member} has {grant.role} on {grant.resource} already: nothing has to be granted"
        lacks = f"{grant.member} gets {grant.role} on {grant.resource}"
        try:
            policy = sources.policies.get_policy(grant.kind, grant.resource)
        except ResourceNotFound as error:
            policy = {}
            lacks = f"{lacks}, which does not exist yet: {error}"
        yield PlannedAccess(
            image=image.name,
            is_granted_by_plan=not grant.is_in(policy),
            reason=has if grant.is_in(policy) else lacks,
            etag=policy.get("etag"),
            **grant.to_json(),
        )


def _machines(spec: JobSpec) -> Iterator[PlannedMachines]:
    for role, replicas in groupby(spec.replicas, key=lambda replica: replica.replica.role):
        first, *others = replicas
        yield PlannedMachines(
            role=role.value,
            count=1 + len(others),
            machine_type=first.machine.name,
            gpus=first.gpus,
            gpu=first.gpu.value if first.gpu else None,
        )


def _cost(job: Job, spec: JobSpec, prices: PriceList) -> PlannedCost:
    parallel = spec.study.max_parallel_trials if spec.study else 1
    try:
        rate = prices.cost_per_second(job.training_input or TrainingInput())
    except InvalidPrice as error:
        return PlannedCost(currency=prices.currency, parallel_trials=parallel, reason=str(error))
    # Rounded, so that sums in another order are the same cost.
    per_hour = round(rate * _HOUR_SECONDS * parallel, 9)
    return PlannedCost(per_hour=per_hour, currency=prices.currency, parallel_trials=parallel)


def _blockers(job: Job, sources: PlanSources) -> Iterator[str]:
    try:
        found = sources.training.get_job(job.job_id or "")
    except JobNotFound:
        return
    yield f"job id {job.job_id!r} is taken by a job that is {found.state}; choose another one"
