"""
Which IAM policy lets a principal pull an image, and the names of resources. Without I/O.

The one place where these names are made: the service enforces pulls with them, the operators grant access
with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from training_api.errors import InvalidImageRef
from training_api.iam.registry_wire import is_same_registry
from training_api.job.image_ref import ImageRef, RegistryKind
from training_api.loopback import is_loopback

#: Location of the repositories in the local registry.
LOCAL_LOCATION = "local"
#: The least role that may pull, per kind of resource.
REPOSITORY_READER = "roles/artifactregistry.reader"
BUCKET_READER = "roles/storage.objectViewer"


class ResourceKind(StrEnum):
    """What a policy belongs to, and so which API holds it."""

    PROJECT = "PROJECT"  #: ``projects/P``: Resource Manager
    REPOSITORY = "REPOSITORY"  #: ``projects/P/locations/L/repositories/R``: Artifact Registry
    BUCKET = "BUCKET"  #: ``buckets/B``: Cloud Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResource:
    """
    A resource with an IAM policy.

    :param name: as :class:`ResourceKind` shows them; the key of the policy in the service's store.
    :param project: the project that owns it.
    :param reader_role: the least role on it that may pull images.
    """

    kind: ResourceKind
    name: str
    project: str
    reader_role: str


def project_resource(project: str, reader_role: str = REPOSITORY_READER) -> PolicyResource:
    """
    Return the resource of a whole project.

    :param reader_role: what a grant gives there.
    """
    return PolicyResource(
        kind=ResourceKind.PROJECT,
        name=f"projects/{project}",
        project=project,
        reader_role=reader_role,
    )


def repository_resource(project: str, location: str, repository: str) -> PolicyResource:
    """Return the resource of one repository of Artifact Registry, or of the local registry."""
    return PolicyResource(
        kind=ResourceKind.REPOSITORY,
        name=f"projects/{project}/locations/{location}/repositories/{repository}",
        project=project,
        reader_role=REPOSITORY_READER,
    )


def bucket_resource_name(bucket: str) -> str:
    """
    Return the name of a bucket's policy.

    The bucket's name does not say which project it belongs to.
    """
    return f"buckets/{bucket}"


def registry_resource(image: ImageRef, registry: str = "") -> PolicyResource | None:
    """
    Return the resource whose policy lets a principal pull ``image``.

    A bucket or a repository.

    Pure. ``None``: the image's registry is neither Google's nor the local one, and no IAM policy decides
    about it.

    :param registry: ``HOST:PORT`` of the local registry where other machines reach it; empty: on loopback.
    :raises InvalidImageRef: the reference names a project but no repository in it.

    Sources: Container Registry, "Access control" (buckets ``[REGION.]artifacts.PROJECT.appspot.com``; those
    of domain-scoped projects follow App Engine's default buckets, ``PROJECT.DOMAIN.a.appspot.com``); Artifact
    Registry, "Repository and image names". Deviation: in the local registry ``PROJECT/REPOSITORY`` is a
    repository with the location ``local``, with or without an image name below it.
    """
    is_local = is_loopback(image.host) or bool(registry and is_same_registry(image.host, registry))
    if image.kind is RegistryKind.OTHER and not is_local:
        return None
    repository = image.path_in_project.partition("/")[0]
    if not repository:
        raise InvalidImageRef(
            f"image {image.name!r} names no repository; expected {image.host}/PROJECT/REPOSITORY"
        )
    if image.kind is RegistryKind.CONTAINER_REGISTRY:
        return PolicyResource(
            kind=ResourceKind.BUCKET,
            name=bucket_resource_name(_bucket(image)),
            project=image.project,
            reader_role=BUCKET_READER,
        )
    location = LOCAL_LOCATION if is_local else image.host.removesuffix("-docker.pkg.dev")
    return repository_resource(image.project, location, repository)


def _bucket(image: ImageRef) -> str:
    region = image.host.removesuffix("gcr.io")  # "", "us.", "eu." or "asia."
    domain, is_scoped, project = image.project.rpartition(":")
    owner = f"{project}.{domain}.a" if is_scoped else project
    return f"{region}artifacts.{owner}.appspot.com"
