"""
A plan: all that a training run would do, and the plan's inputs, as one JSON document.

Without I/O.

A plan is sealed with a hash of all that it says. To apply it, it is made again from its own inputs; whatever
is different then makes it stale (``stale_reasons``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from container_training.work.images.parts import ImageParts, part_changes
from training_api.errors import InvalidPlan

#: Of the document; a plan of another version is refused, as plans are made in seconds.
PLAN_VERSION: Final = 1
#: What tells two plans of the same work apart, and what follows from other fields.
_NOT_COMPARED = ("created_at", "hash", "inputs", "blockers")
_NOT_COMPARED_OF_IMAGES = ("parts", "changes", "on_engine", "actions", "note")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class PlanInputs(_Part):
    """
    What a plan is made from.

    :param config_file: path of the job file.
    :param job: the job in the API's own form; overrides the file.
    :param fields: fields of ``JobFields`` by name; override both.
    :param job_id: default: that of ``job`` or the file, else one made from the moment and the request.
    :param context_dir: build context of the master's image; ``None``: nothing is built, the job names its
        image.
    :param image: ``HOST/PATH`` of the image to build.
    """

    config_file: str | None = None
    job: dict[str, Any] | None = None
    fields: dict[str, Any] = {}
    job_id: str | None = None
    context_dir: str | None = None
    dockerfile: str = "Dockerfile"
    build_args: dict[str, str] = {}
    image: str | None = None
    training_conn_id: str = "training_default"
    gcp_conn_id: str = "google_cloud_default"
    docker_conn_id: str | None = "docker_default"
    docker_url: str | None = None

    @classmethod
    def of(
        cls,
        *,
        fields: Mapping[str, Any],
        job: Mapping[str, Any] | str | None = None,
        context_dir: str | None = None,
        build_args: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> Self:
        """
        Return inputs as a task or a command line has them: fields that are not set are left out.

        :param fields: with a build context, its ``image`` is the name of the image to build.
        :param job: or its JSON text.
        """
        given = {name: value for name, value in fields.items() if value not in (None, "", [], ())}
        built = str(given.pop("image", "")) if context_dir else None
        return cls(
            job=json.loads(job) if isinstance(job, str) and job.strip() else (job or None),
            # What a DAG's author may pass, tuples for example, becomes what a document can hold.
            fields=json.loads(json.dumps(given, default=list)),
            context_dir=context_dir or None,
            image=built,
            build_args={
                name: str(value) for name, value in (build_args or {}).items() if value not in ("", None)
            },
            **others,
        )


class PlannedParts(_Part):
    """``ImageParts`` in a document."""

    dockerfile: str
    files: dict[str, str] | None
    build_args: dict[str, str]
    base_images: dict[str, str]

    def to_parts(self) -> ImageParts:
        """Return them as the image's own label has them."""
        return ImageParts(**self.model_dump())


class PlannedImage(_Part):
    """
    One image of the job.

    :param roles: whose image it is, like ``master``.
    :param ref: by tag if it is built, else as the job names it.
    :param digest: what the registry has under ``ref``; ``None``: nothing that is this image.
    :param context_hash: of all that decides it; ``None``: it is not built here.
    :param on_engine: whether the engine has it.
    :param actions: ``pull``, or of ``build`` and ``push``; empty: nothing has to be done.
    :param changes: since the newest image of the same name on the engine, a line each.
    :param note: what could not be found out, and why.
    """

    roles: list[str]
    ref: str
    digest: str | None = None
    context_hash: str | None = None
    parts: PlannedParts | None = None
    on_engine: bool | None = None
    actions: list[str] = []
    changes: list[str] = []
    note: str = ""


class PlannedAccess(_Part):
    """
    Who may pull an image.

    :param is_granted_by_plan: whether ``role`` on ``resource`` would be given to ``member``.
    :param etag: of the policy that was read.
    """

    image: str
    member: str
    is_granted_by_plan: bool
    reason: str
    role: str | None = None
    resource_kind: str | None = None
    resource: str | None = None
    etag: str | None = None


class PlannedMachines(_Part):
    """
    The machines of one role.

    :param gpus: accelerators of each machine.
    """

    role: str
    count: int
    machine_type: str
    gpus: int = 0
    gpu: str | None = None


class PlannedCost(_Part):
    """
    What the job costs while it runs.

    :param per_hour: of all replicas; of a tuning job: of all trials that run side by side. ``None``: a price
        is missing.
    :param parallel_trials: 1 of a job that does not tune.
    :param reason: why there is no ``per_hour``.
    """

    per_hour: float | None = None
    currency: str = ""
    parallel_trials: int = 1
    reason: str = ""


class Plan(_Part):
    """
    The document.

    :param service: endpoint that the job goes to.
    :param config_sha256: of the job file.
    :param request: the body of ``projects.jobs.create``, under the wire's names.
    :param blockers: why it cannot be applied, a line each; empty: it can.
    :param hash: SHA-256 over all other fields.
    """

    version: Literal[1] = 1
    created_at: datetime
    service: str
    project: str
    inputs: PlanInputs
    config_sha256: str | None = None
    request: dict[str, Any]
    images: list[PlannedImage] = []
    access: list[PlannedAccess] = []
    machines: list[PlannedMachines] = []
    cost: PlannedCost
    blockers: list[str] = []
    hash: str = ""

    @property
    def job_id(self) -> str:
        """Id of the job that it would make."""
        return str(self.request["jobId"])

    @property
    def built_image(self) -> PlannedImage | None:
        """The image that is made from a build context, if one is."""
        return next((image for image in self.images if image.context_hash), None)

    def sealed(self) -> Self:
        """Return it with its hash."""
        return self.model_copy(update={"hash": self._hash()})

    def to_json(self) -> dict[str, Any]:
        """Return the document as JSON values."""
        return self.model_dump(mode="json")

    def is_intact(self) -> bool:
        """Whether it says what it said when it was sealed."""
        return self.hash == self._hash()

    def _hash(self) -> str:
        text = json.dumps({**self.to_json(), "hash": ""}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def read_plan(text: str, source: str) -> Plan:
    """
    Return the plan in ``text``. Pure.

    :param source: the file's name, for messages.
    :raises InvalidPlan: no plan, of another version, or changed by hand.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InvalidPlan(f"{source} is no plan: it is not JSON: {error}") from error
    version = document.get("version") if isinstance(document, Mapping) else None
    if version != PLAN_VERSION:
        raise InvalidPlan(
            f"{source} must be a plan of version {PLAN_VERSION}, got version {version!r}; plan again"
        )
    try:
        plan = Plan.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidPlan(f"{source} is no plan: {place}: {first['msg']}; plan again") from error
    if not plan.is_intact():
        raise InvalidPlan(
            f"{source} was edited after it was made: its hash is not that of its contents; plan again"
        )
    return plan


def stale_reasons(planned: Plan, now: Plan) -> list[str]:
    """
    Return the changes since the plan was made, a line each; empty: the plan holds. Pure.

    Each line has both values.

    :param now: made again from the inputs of ``planned``, with its job id.
    """
    before, after = dict(_leaves(_compared(planned))), dict(_leaves(_compared(now)))
    reasons = [
        f"{name} was {_shown(before.get(name))}, is {_shown(after.get(name))}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
    old, new = planned.built_image, now.built_image
    if old and new and old.context_hash != new.context_hash and old.parts and new.parts:
        reasons += [
            f"build context: {line}" for line in part_changes(old.parts.to_parts(), new.parts.to_parts())
        ]
    return [*reasons, *now.blockers]


def _compared(plan: Plan) -> dict[str, Any]:
    """
    Return what must be the same.

    Parts of lists are keyed by their subject, so that names tell it.
    """
    document = {name: value for name, value in plan.to_json().items() if name not in _NOT_COMPARED}
    document["images"] = {
        "+".join(image["roles"]): {
            name: value for name, value in image.items() if name not in _NOT_COMPARED_OF_IMAGES
        }
        for image in document["images"]
    }
    document["access"] = {access.pop("image"): access for access in document["access"]}
    document["machines"] = {machines.pop("role"): machines for machines in document["machines"]}
    return document


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            yield from _leaves(part, f"{path}.{name}" if path else str(name))
    else:
        yield path, value


def _shown(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
