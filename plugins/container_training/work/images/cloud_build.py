"""A build on Google Cloud Build: what is asked for, and what came of it. Without I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from container_training.work.images.content import ImageContent
from container_training.work.images.dockerfile import buildkit_needs
from container_training.work.images.parts import PARTS_LABEL
from training_api.errors import (
    BuildFailed,
    EngineBusy,
    EngineUnavailable,
    InvalidImageRef,
    InvalidRequest,
    TrainingError,
)
from training_api.job.image_ref import ImageRef, RegistryKind

#: Google's image with docker's command line, which steps of Cloud Build use.
DOCKER_STEP = "gcr.io/cloud-builders/docker"
OWN_TAG = "container-training"
#: Source: Cloud Build, "Quotas and limits".
MAX_ARGUMENTS, MAX_ARGUMENT_LENGTH = 100, 10_000
MAX_TIMEOUT = timedelta(hours=24)
_SECRET = re.compile(r"projects/[^/]+/secrets/[^/]+/versions/[^/]+")
_RUNNING = frozenset({"STATUS_UNKNOWN", "PENDING", "QUEUED", "WORKING"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudMachine:
    """
    Where and as whom a build runs.

    :param machine_type: like ``E2_HIGHCPU_8``; empty: Cloud Build's default.
    :param worker_pool: of private workers, ``projects/P/locations/L/workerPools/W``.
    :param service_account: ``projects/P/serviceAccounts/EMAIL``; empty: the project's default.
    """

    timeout: timedelta
    machine_type: str = ""
    worker_pool: str = ""
    service_account: str = ""

    def __post_init__(self) -> None:
        if not timedelta(0) < self.timeout <= MAX_TIMEOUT:
            raise InvalidRequest.of(
                "build_timeout", f"must be above 0 and at most 24 hours, got {self.timeout}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredContext:
    """A packed context in Cloud Storage."""

    bucket: str
    name: str
    generation: int


def check_registry(ref: ImageRef) -> None:
    """:raises InvalidImageRef: Cloud Build has no login for the registry of ``ref``."""
    if ref.kind is RegistryKind.OTHER:
        raise InvalidImageRef(
            f"image {ref.name!r} must be in Artifact Registry or Container Registry, where Cloud Build pushes it; for "
            "another registry take BuildImageOperator"
        )


def build_request(
    content: ImageContent,
    context: StoredContext,
    *,
    dockerfile: str,
    dockerfile_text: str,
    build_args: Mapping[str, str],
    labels: Mapping[str, str],
    secrets: Mapping[str, str],
    machine: CloudMachine,
) -> dict[str, Any]:
    """
    Return the build, as a ``google.cloud.devtools.cloudbuild_v1.types.Build`` takes it.

    :param secrets: versions in Secret Manager by id, ``projects/P/secrets/S/versions/V``.
    :raises InvalidRequest: a secret has another form, or docker would get too many arguments.
    """
    variables = {id_: f"SECRET_{number}" for number, id_ in enumerate(sorted(secrets))}
    for id_, version in secrets.items():
        if not _SECRET.fullmatch(version):
            raise InvalidRequest.of(
                f"secrets.{id_}", f"must be projects/P/secrets/S/versions/V, got {version!r}"
            )
    arguments = [
        *("build", "--file", dockerfile, "--tag", str(content.ref)),
        *(f"--build-arg={name}={value}" for name, value in build_args.items()),
        *(f"--label={name}={value}" for name, value in _short(labels, content).items()),
        *(f"--secret=id={id_},env={name}" for id_, name in variables.items()),
        ".",
    ]
    _check_arguments(arguments)
    # A dollar sign begins a variable of Cloud Build's own.
    step: dict[str, Any] = {"name": DOCKER_STEP, "args": [word.replace("$", "$$") for word in arguments]}
    if secrets or buildkit_needs(dockerfile_text):
        step["env"] = ["DOCKER_BUILDKIT=1"]
    options: dict[str, Any] = {}
    if machine.machine_type:
        options["machine_type"] = machine.machine_type
    if machine.worker_pool:
        options["pool"] = {"name": machine.worker_pool}
    request: dict[str, Any] = {
        "source": {
            "storage_source": {
                "bucket": context.bucket,
                "object_": context.name,
                "generation": context.generation,
            }
        },
        "steps": [step],
        "images": [str(content.ref)],
        "tags": [OWN_TAG, content.ref.tag],
        "timeout": machine.timeout,
    }
    if secrets:
        step["secret_env"] = list(variables.values())
        request["available_secrets"] = {
            "secret_manager": [{"version_name": secrets[id_], "env": name} for id_, name in variables.items()]
        }
    if machine.service_account:
        request["service_account"] = machine.service_account
        options["logging"] = "CLOUD_LOGGING_ONLY"  # with its own account a build must say where its log goes
    if options:
        request["options"] = options
    return request


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudBuild:
    """
    A build as Cloud Build describes it.

    :param status: a name of ``Build.Status``.
    :param digests: of the images that it has pushed, by their names.
    :param reason: why it failed, in Cloud Build's words.
    """

    build_id: str
    status: str
    log_url: str
    images: tuple[str, ...]
    digests: Mapping[str, str]
    reason: str

    @classmethod
    def of(cls, build: Any) -> CloudBuild:
        """Return what a ``Build`` says."""
        failed = [
            f"step {number} ({step.name}) {step.status.name}"
            for number, step in enumerate(build.steps)
            if step.status.name in ("FAILURE", "TIMEOUT", "CANCELLED")
        ]
        words = (build.failure_info.detail, build.status_detail, *failed)
        return cls(
            build_id=build.id,
            status=build.status.name,
            log_url=build.log_url,
            images=tuple(build.images),
            digests={image.name: image.digest for image in build.results.images},
            reason="; ".join(dict.fromkeys(word for word in words if word)),
        )

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.status not in _RUNNING

    def image(self, ref: ImageRef) -> ImageRef:
        """
        Return the image that it has pushed as ``ref``, with its digest.

        :raises BuildFailed: a step failed, it took too long, or it was cancelled.
        :raises EngineUnavailable: Cloud Build itself failed.
        :raises EngineBusy: it waited too long for a machine.
        """
        if self.status != "SUCCESS":
            raise self._error()
        digest = self.digests.get(str(ref))
        if not digest:
            raise BuildFailed(
                f"Cloud Build's {self.build_id} ended well, and did not push {ref}; log: {self.log_url}"
            )
        return replace(ref, digest=digest)

    def _error(self) -> TrainingError:
        kinds: Mapping[str, type[TrainingError]] = {
            "INTERNAL_ERROR": EngineUnavailable,
            "EXPIRED": EngineBusy,
        }
        kind = kinds.get(self.status, BuildFailed)
        reason = f": {self.reason}" if self.reason else ""
        return kind(f"Cloud Build's {self.build_id} ended with {self.status}{reason}; log: {self.log_url}")


def _short(labels: Mapping[str, str], content: ImageContent) -> Mapping[str, str]:
    """Return the labels; without the files of the context if they are too many for an argument."""
    if len(labels.get(PARTS_LABEL, "")) + len(PARTS_LABEL) < MAX_ARGUMENT_LENGTH // 2:
        return labels
    return {**labels, PARTS_LABEL: replace(content.parts, files=None).to_label()}


def _check_arguments(arguments: list[str]) -> None:
    if len(arguments) > MAX_ARGUMENTS:
        raise InvalidRequest.of(
            "build_args",
            f"must be few enough for the {MAX_ARGUMENTS} arguments that Cloud Build takes, labels and secrets "
            f"included, got {len(arguments)}; put values into a file of the context",
        )
    for word in arguments:
        if len(word) > MAX_ARGUMENT_LENGTH:
            raise InvalidRequest.of(
                "build_args",
                f"must have at most {MAX_ARGUMENT_LENGTH} characters each, got {len(word)} in {word[:40]!r}...",
            )
