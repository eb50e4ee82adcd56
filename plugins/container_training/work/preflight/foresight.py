"""
What a job needs of the cloud that runs it: images, a bucket, machines and quotas.

Nothing here stops a preflight: what cannot be read is a row that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from container_training.work.preflight.image_access import image_access_rows
from container_training.work.preflight.report import Check, PreflightRow, Verdict
from training_api.clients.iam import IamPoliciesClient
from training_api.dialects.vertex_v1.quotas import demand
from training_api.errors import ResourceNotFound, TrainingError
from training_api.iam.registry_resources import bucket_resource_name
from training_api.job.job_spec import JobSpec
from training_api.job.newer_machines import VERTEX_TABLE_READ
from training_api.job.replica_spec import ReplicaSpec

#: What Airflow does in the folder of a job: it writes what the job reads, and collects results.
_OBJECT_RIGHTS = ("storage.objects.create", "storage.objects.get", "storage.objects.list")
_SHOWN_REGIONS = 10


class Facts(Protocol):
    """What is known of a project's machines and quotas."""

    def zones_of(self, listed: Literal["machineTypes", "acceleratorTypes"], name: str) -> frozenset[str]:
        """Return the zones of all regions that have a machine type or a kind of accelerator."""

    def quota_limit(self, number: int, metric: str, region: str) -> int | None:
        """Return how much of a quota the project may use in a region; ``None``: there is no limit."""


class Backend(Protocol):
    """What is asked of the service itself."""

    def service_agent(self) -> str:
        """Return the address of the account that pulls the images of jobs."""

    def project_number(self) -> int:
        """Return the number of the project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """
    Whom the checks ask.

    :param policies: of images; ``None``: who may pull is not checked.
    :param buckets: asked with the credentials of the connection.
    :param region: where the job would be made.
    :param strategy: of ``scheduling``; empty: the service's default.
    :param registry: the service's own, where it is not on loopback.
    """

    backend: Backend
    policies: IamPoliciesClient | None
    buckets: IamPoliciesClient
    facts: Facts
    region: str
    strategy: str = ""
    registry: str = ""


def foresight_rows(spec: JobSpec, around: Surroundings) -> list[PreflightRow]:
    """Return the rows of all checks; ``spec`` is the whole job, with all of its replicas."""
    return [
        *_known(Check.IMAGE_ACCESS, "all images", lambda: _image_rows(spec, around)),
        *_known(Check.BUCKET, spec.output_dir, lambda: _bucket_rows(spec, around.buckets)),
        *_region_rows(spec, around),
        *_known(Check.QUOTA, around.region, lambda: _quota_rows(spec, around)),
    ]


def _known(check: Check, where: str, look: Callable[[], Iterable[PreflightRow]]) -> list[PreflightRow]:
    """Return the rows that ``look`` finds, or one that says why they are not known."""
    try:
        return list(look())
    except TrainingError as error:
        return [_row(check, where, Verdict.NOT_CHECKED, f"could not be read: {error}")]


def _row(check: Check, where: str, result: Verdict, why: str) -> PreflightRow:
    return PreflightRow(check=check, where=where, result=result, why=why)


def _image_rows(spec: JobSpec, around: Surroundings) -> Iterator[PreflightRow]:
    if around.policies is None:
        why = "check_access is off, as where a task grants the access"
        yield _row(Check.IMAGE_ACCESS, "all images", Verdict.NOT_CHECKED, why)
        return
    yield from image_access_rows(spec, around.backend.service_agent(), around.policies, around.registry)


def _bucket_rows(spec: JobSpec, buckets: IamPoliciesClient) -> Iterator[PreflightRow]:
    bucket = spec.output_dir.removeprefix("gs://").partition("/")[0]
    if not bucket:
        yield _row(Check.BUCKET, "the job", Verdict.NOT_CHECKED, "it has no job directory")
        return
    where = f"gs://{bucket}"
    try:
        held = buckets.held_permissions(bucket_resource_name(bucket), _OBJECT_RIGHTS)
    except ResourceNotFound as error:
        why = f"it does not exist: {error}; run: gcloud storage buckets create {where}"
        yield _row(Check.BUCKET, where, Verdict.FAILED, why)
        return
    lacking = [name for name in _OBJECT_RIGHTS if name not in held]
    if lacking:
        why = (
            f"the connection's account lacks {', '.join(lacking)}; have the bucket's owner give it "
            "roles/storage.objectUser there"
        )
        yield _row(Check.BUCKET, where, Verdict.FAILED, why)
        return
    why = "it exists, and the connection's account may write, read and list objects"
    yield _row(Check.BUCKET, where, Verdict.OK, why)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """A machine type, and the kind of accelerator that is attached to it; empty: none is."""

    name: str
    attached: str

    @classmethod
    def of(cls, replica: ReplicaSpec) -> _Machine:
        """Return that of a replica; accelerators that come with the machine are not attached."""
        attached = replica.gpu.value if replica.gpu and replica.gpus and not replica.machine.gpus else ""
        return cls(name=replica.machine.name, attached=attached)

    def __str__(self) -> str:
        return f"{self.name} with {self.attached}" if self.attached else self.name


def _region_rows(spec: JobSpec, around: Surroundings) -> Iterator[PreflightRow]:
    """
    Yield a row for each kind of machine.

    Vertex AI itself has no API that says which machines it has where.
    """
    for machine in dict.fromkeys(map(_Machine.of, spec.replicas)):
        try:
            result, why = _machine_answer(machine, around)
        except TrainingError as error:
            result = Verdict.NOT_CHECKED
            why = f"whether the region has {machine} could not be read: {error}"
        known = f"Vertex AI's table of {VERTEX_TABLE_READ} has {machine.name}, without regions"
        yield _row(Check.REGION, around.region, result, f"{why}; {known}")


def _machine_answer(machine: _Machine, around: Surroundings) -> tuple[Verdict, str]:
    zones = around.facts.zones_of("machineTypes", machine.name)
    if machine.attached:
        kind = machine.attached.lower().replace("_", "-")
        zones &= around.facts.zones_of("acceleratorTypes", kind)
    here = sorted(zone for zone in zones if _region_of(zone) == around.region)
    if here:
        return Verdict.OK, f"Compute Engine has {machine} in {', '.join(here)}"
    regions = sorted(set(map(_region_of, zones)))
    if not regions:
        return Verdict.NOT_CHECKED, f"Compute Engine shows the project no {machine} anywhere"
    more = f" and {len(regions) - _SHOWN_REGIONS} more" if len(regions) > _SHOWN_REGIONS else ""
    there = f"{', '.join(regions[:_SHOWN_REGIONS])}{more}"
    return Verdict.FAILED, (
        f"Compute Engine has {machine} in no zone of {around.region}; choose one of {there} as the connection's "
        "region, or another machine type"
    )


def _region_of(zone: str) -> str:
    return zone.rpartition("-")[0]


def _quota_rows(spec: JobSpec, around: Surroundings) -> Iterator[PreflightRow]:
    number = around.backend.project_number()
    for metric, wanted in demand(spec, around.strategy).items():
        try:
            result, why = _quota_answer(number, metric, wanted, around)
        except TrainingError as error:
            result, why = Verdict.NOT_CHECKED, f"{metric} could not be read: {error}"
        yield _row(Check.QUOTA, around.region, result, why)


def _quota_answer(number: int, metric: str, wanted: int, around: Surroundings) -> tuple[Verdict, str]:
    limit = around.facts.quota_limit(number, metric, around.region)
    if limit is None:
        return Verdict.OK, f"{metric} has no limit"
    if wanted <= limit:
        return Verdict.OK, f"the job uses {wanted} of {metric}, of which there are {limit} for all jobs"
    return Verdict.FAILED, (
        f"the job uses {wanted} of {metric}, but the limit is {limit}; ask for more at "
        f"https://console.cloud.google.com/iam-admin/quotas?project={number}, or take fewer or other machines"
    )
