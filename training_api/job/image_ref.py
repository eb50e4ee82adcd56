"""Image references: ``HOST/REPOSITORY[:TAG][@DIGEST]``, as registry and engine read them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from training_api.errors import InvalidImageRef

_HOST_PART = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = re.compile(rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?")
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_GCR_HOST = re.compile(r"(?:(?:us|eu|asia)\.)?gcr\.io")
_ARTIFACT_REGISTRY_HOST = re.compile(r"[a-z0-9-]+-docker\.pkg\.dev")

#: The host of images that are on one engine and in no registry.
LOCAL_HOST = "localhost"


class RegistryKind(StrEnum):
    """Who keeps the image, and so how access to it is granted."""

    CONTAINER_REGISTRY = "CONTAINER_REGISTRY"  #: gcr.io: a Cloud Storage bucket
    ARTIFACT_REGISTRY = "ARTIFACT_REGISTRY"  #: REGION-docker.pkg.dev: a repository resource
    OTHER = "OTHER"  #: any other registry, the local one included


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRef:
    """
    A parsed image reference.

    :param host: ``host`` or ``host:port`` of the registry.
    :param repository: path below the host, at least one component.
    :param tag: or ``None``.
    :param digest: ``sha256:<64 hex>`` or ``None``.

    Source of the grammar: github.com/distribution/reference ``regexp.go``.
    """

    host: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    def __post_init__(self) -> None:
        if not _HOST.fullmatch(self.host):
            raise InvalidImageRef(f"image registry {self.host!r} must be HOST or HOST:PORT")
        if not _REPOSITORY.fullmatch(self.repository):
            raise InvalidImageRef(
                f"image repository {self.repository!r} is not lower-case path components joined by '/'"
            )
        if self.tag is not None and not _TAG.fullmatch(self.tag):
            raise InvalidImageRef(f"image tag {self.tag!r} must be 1-128 of [A-Za-z0-9._-]")
        if self.digest is not None and not _DIGEST.fullmatch(self.digest):
            raise InvalidImageRef(f"image digest {self.digest!r} must be 'sha256:' and 64 hex digits")

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.name}{tag}{digest}"

    @property
    def name(self) -> str:
        """``HOST/REPOSITORY``, without tag and digest."""
        return f"{self.host}/{self.repository}"

    @property
    def pullable(self) -> str:
        """The reference by digest if there is one, else by tag: what the engine is asked for."""
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.tag or 'latest'}"

    @property
    def kind(self) -> RegistryKind:
        """Which service keeps the image."""
        if _GCR_HOST.fullmatch(self.host):
            return RegistryKind.CONTAINER_REGISTRY
        if _ARTIFACT_REGISTRY_HOST.fullmatch(self.host):
            return RegistryKind.ARTIFACT_REGISTRY
        return RegistryKind.OTHER

    @property
    def project(self) -> str:
        """
        The project that owns the image.

        The first path component, on every registry kind known here.

        Project ids have no dots, so a first component with one is the domain of a domain-scoped project:
        ``gcr.io/example.com/vision/train`` is of ``example.com:vision``. Source: Container Registry,
        "Domain-scoped projects".
        """
        first, _, rest = self.repository.partition("/")
        return f"{first}:{rest.partition('/')[0]}" if "." in first and rest else first

    @property
    def path_in_project(self) -> str:
        """The repository below the project; empty if there is nothing below it."""
        return self.repository[len(self.project) + 1 :]

    def at(self, digest: str) -> ImageRef:
        """Return the same repository by ``digest`` alone."""
        return replace(self, tag=None, digest=digest)


def names_registry(text: str) -> bool:
    """Return whether ``text`` begins with a registry's host, as the engine reads it. Pure."""
    host, slash, _ = text.strip().partition("/")
    return bool(slash) and ("." in host or ":" in host or host == LOCAL_HOST)


def is_googles(host: str) -> bool:
    """Return whether the registry at ``host`` is one of Google's. Pure."""
    return ImageRef(host=host, repository="any").kind is not RegistryKind.OTHER


def parse_image_ref(text: str) -> ImageRef:
    """
    Return the parts of ``text``.

    :raises InvalidImageRef: no registry host, or a part that breaks the grammar.
    """
    if not names_registry(text):
        raise InvalidImageRef(f"image ref {text!r} has no registry host; expected HOST/PROJECT/NAME:TAG")
    host, _, rest = text.strip().partition("/")
    rest, at, digest = rest.partition("@")
    repository, colon, tag = rest.partition(":")
    return ImageRef(
        host=host, repository=repository, tag=tag if colon else None, digest=digest if at else None
    )
