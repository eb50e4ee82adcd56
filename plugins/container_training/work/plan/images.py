"""
What a plan says of images: builds, pushes, changes, and the registry's contents.

Nothing is pulled.

What imports the engine's client is imported on use: a DAG file with ``PlanTrainingOperator`` imports this
module.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from container_training.work.plan.plan import PlanInputs, PlannedImage, PlannedParts
from training_api.errors import ImageNotFound, InvalidImageRef, PushFailed, RegistryUnavailable
from training_api.job.image_ref import ImageRef
from training_api.job.job_spec import JobSpec
from training_api.job.packages.python_package import runtime_of

if TYPE_CHECKING:
    from docker.api import APIClient

    from container_training.work.images.registry import FindLogin


def name_in_request(image: PlannedImage) -> str:
    """Return what the request calls a built image: its digest is known once the registry has it."""
    name, _, _ = image.ref.rpartition(":")
    return f"{name}@{image.digest}" if image.digest else image.ref


def built_image(inputs: PlanInputs, connect: Callable[[], APIClient], find_login: FindLogin) -> PlannedImage:
    """
    Return what building the image of ``inputs`` would do.

    :param connect: connects to the engine.
    :raises InvalidImageRef: it has no name, or one with a tag.
    :raises ImageNotFound: the engine lacks a base image, without which the tag cannot be known.
    """
    from container_engines.docker.driver import DockerDriver
    from container_training.work.images.build_context import open_context
    from container_training.work.images.content import image_content, repository_name
    from container_training.work.images.history import changes_since_newest

    if not inputs.image:
        raise InvalidImageRef(
            "an image that is built needs a name to be pushed as: set image to HOST/PROJECT/NAME"
        )
    context = open_context(
        inputs.context_dir or "", dockerfile=inputs.dockerfile, build_args=inputs.build_args
    )
    repository_name(inputs.image)  # which needs no engine to be refused
    engine = connect()
    with tempfile.TemporaryFile(prefix="build-context-") as archive:
        content = image_content(context, inputs.image, archive, lambda base: _base_image_id(engine, base))
    existing = DockerDriver(engine).find_image(str(content.ref))
    digest, note = _digest_in_registry(content.ref, existing, find_login)
    return PlannedImage(
        roles=[],
        ref=str(content.ref),
        digest=digest,
        context_hash=content.digest,
        parts=PlannedParts(**content.parts.to_json()),
        on_engine=existing is not None,
        actions=_actions(is_on_engine=existing is not None, is_in_registry=digest is not None),
        changes=[] if existing or digest else changes_since_newest(engine, content),
        note=note,
    )


def _base_image_id(engine: APIClient, base: str) -> str:
    from container_engines.docker.driver import DockerDriver

    image = DockerDriver(engine).find_image(base)
    if image is None:
        raise ImageNotFound(
            f"FROM {base}: the engine does not have this base image, and a plan pulls nothing; run: docker "
            f"pull {base}"
        )
    return str(image["Id"])


def _actions(*, is_on_engine: bool, is_in_registry: bool) -> list[str]:
    """
    Return what ``build_image`` and ``push_image`` would do.

    A build takes the registry's image if there is one.
    """
    if is_on_engine:
        return [] if is_in_registry else ["push"]
    return ["pull"] if is_in_registry else ["build", "push"]


def _digest_in_registry(
    ref: ImageRef, existing: dict[str, Any] | None, find_login: FindLogin
) -> tuple[str | None, str]:
    """
    Return the digest of the registry's image, and what could not be found out.

    No digest if the engine has another image.
    """
    from container_training.work.images.pusher import is_same_image
    from container_training.work.images.registry import find_manifest

    try:
        manifest = find_manifest(ref, login=find_login(ref.host))
    except (RegistryUnavailable, PushFailed) as error:
        return None, f"cannot look whether the registry has it: {error}"
    is_there = manifest is not None and (existing is None or is_same_image(existing, ref, manifest))
    return (manifest.digest if manifest and is_there else None), ""


def job_images(spec: JobSpec, built: PlannedImage | None, find_login: FindLogin) -> Iterator[PlannedImage]:
    """Yield the images of the job, each once, with the roles that run it."""
    roles: dict[ImageRef, list[str]] = {}
    for replica in spec.replicas:
        names = roles.setdefault(replica.image, [])
        if replica.replica.role.value not in names:
            names.append(replica.replica.role.value)
    for image, names in roles.items():
        if runtime_of(image) is not None:
            continue  # the service's own, for jobs of packages
        if built is not None and str(image) == name_in_request(built):
            yield built.model_copy(update={"roles": names})
        else:
            yield _given_image(image, names, find_login)


def _given_image(image: ImageRef, roles: list[str], find_login: FindLogin) -> PlannedImage:
    from container_training.work.images.registry import manifest_digest

    note = ""
    digest = image.digest
    try:
        found = manifest_digest(image, login=find_login(image.host))
        if found is None:
            note = f"the registry has no {image}: push it first"
        digest = digest or found
    except (RegistryUnavailable, PushFailed) as error:
        note = f"cannot look whether the registry has it: {error}"
    return PlannedImage(roles=roles, ref=str(image), digest=digest, note=note)
