"""The protocol of a registry's HTTP API: addresses, manifest types, challenges. Without I/O."""

from __future__ import annotations

import re

from training_api.job.image_ref import ImageRef
from training_api.loopback import is_loopback

#: Without these a registry answers in the oldest manifest format, whose digest is another.
MANIFEST_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
#: User name of a login whose password is an access token. Source: Artifact Registry, "Authentication with an
#: access token".
ACCESS_TOKEN_USER = "oauth2accesstoken"  # noqa: S105  # a user's name


def registry_url(host: str) -> str:
    """
    Return the base URL of a registry.

    Plain HTTP for loopback hosts, as the engine does, else HTTPS.
    """
    return f"{'http' if is_loopback(host) else 'https'}://{host}"


def is_same_registry(host: str, other: str) -> bool:
    """
    Tell whether both are one registry.

    The same name, or any two names of this machine with the same port.
    """
    return host == other or (is_loopback(host) and is_loopback(other) and _port(host) == _port(other))


def manifest_url(ref: ImageRef) -> str:
    """Return the URL of ``ref``'s manifest."""
    return f"{registry_url(ref.host)}/v2/{ref.repository}/manifests/{ref.digest or ref.tag or 'latest'}"


def _port(host: str) -> str:
    found = re.search(r":([0-9]+)$", host)
    return found[1] if found else ""
