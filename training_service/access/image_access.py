"""
Whether a job may pull its image: the registry itself is asked, before the engine.

A pull that succeeds proves nothing: the engine does not ask the registry about an image that it has, and not
about a manifest by digest that it has under any name.
"""

from __future__ import annotations

import ssl
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta

import httpx

from training_api.cached import cached_property
from training_api.errors import ImageAccessDenied, ImageNotFound, RegistryUnavailable
from training_api.iam.grants import Grant
from training_api.iam.registry_resources import PolicyResource
from training_api.iam.registry_wire import MANIFEST_TYPES, is_same_registry, manifest_url
from training_api.job.dialect import Dialects
from training_api.job.image_ref import ImageRef
from training_api.job.job_spec import JobSpec
from training_api.job.service_agent import ServiceAgent
from training_service.access.decision import Caller, agent_principal
from training_service.access.registry_tokens import RegistryTokens, local_repository

_TIMEOUT_SECONDS = 10.0
#: The engine asks for layer after layer with the one token; the slowest pull must end before it does.
_PULL_LIFETIME = timedelta(hours=6)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullableImage:
    """
    What the engine is asked to pull, and with what.

    :param token: for the registry; empty: none is needed, or none is ours to give.
    """

    ref: ImageRef
    token: str = ""

    def __repr__(self) -> str:
        """Leave out the token: reprs end in logs."""
        return f"PullableImage({self.ref})"


class ImageAccess(ABC):
    """Says whether a job may pull an image, and how."""

    @abstractmethod
    def pullable(self, job: JobSpec, image: ImageRef) -> PullableImage:
        """
        Return ``image`` as ``job`` pulls it.

        :raises ImageNotFound: there is no such image.
        :raises ImageAccessDenied: it may not.
        :raises RegistryUnavailable: the registry did not answer; may work later.
        """


class AnyImage(ImageAccess):
    """No registry is ours: the engine pulls as anybody may, and its registry decides."""

    def pullable(self, job: JobSpec, image: ImageRef) -> PullableImage:
        return PullableImage(ref=image)


class CheckedImages(ImageAccess):
    """
    Checks images of the registry for which this service issues tokens.

    Those of other registries are as in ``AnyImage``.

    :param registry: ``HOST:PORT`` of the registry.
    :param dialects: a job pulls as the service agent of its dialect.
    """

    def __init__(
        self,
        registry: str,
        tokens: RegistryTokens,
        dialects: Dialects,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._registry = registry
        self._tokens = tokens
        self._dialects = dialects
        self._transport = transport

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """To read the certificates takes longer than to ask a registry."""
        return httpx.create_ssl_context()

    def pullable(self, job: JobSpec, image: ImageRef) -> PullableImage:
        if not is_same_registry(image.host, self._registry):
            return PullableImage(ref=image)
        resource = local_repository(image.repository)
        if resource is None:
            raise ImageNotFound(
                f"{image.name!r} names no repository; expected {image.host}/PROJECT/REPOSITORY"
            )
        agent = self._dialects[job.dialect].agent
        denied = _denied(agent, job.project, resource)
        scope = f"repository:{image.repository}:pull"
        caller = Caller(principal=agent_principal(agent, job.project))
        token = self._tokens.issue(caller, [scope], _PULL_LIFETIME)
        if not token.access:
            raise ImageAccessDenied(denied)
        # By digest, so that the engine gets what was checked, and not a tag that moved or that it has of old.
        return PullableImage(ref=image.at(self._digest(image, token.value, denied)), token=token.value)

    def _digest(self, image: ImageRef, token: str, denied: str) -> str:
        headers = {"Accept": ", ".join(MANIFEST_TYPES), "Authorization": f"Bearer {token}"}
        try:
            # trust_env: neither a proxy nor ~/.netrc has anything to do with a registry of this machine.
            with httpx.Client(
                timeout=_TIMEOUT_SECONDS, trust_env=False, verify=self._tls, transport=self._transport
            ) as client:
                answer = client.head(manifest_url(image), headers=headers)
        except httpx.TransportError as error:
            raise RegistryUnavailable(f"registry {image.host} did not answer: {error}") from error
        if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise ImageAccessDenied(denied)
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise ImageNotFound(f"registry {image.host} has no image {image}: manifest unknown")
        digest: str | None = answer.headers.get("Docker-Content-Digest")
        if not answer.is_success or not digest:
            raise RegistryUnavailable(f"registry {image.host} answered {answer.status_code} for {image}")
        return digest


def _denied(agent: ServiceAgent, project: str, resource: PolicyResource) -> str:
    """Say who lacks what, where, and how it is given."""
    grant = Grant(
        kind=resource.kind,
        resource=resource.name,
        role=resource.reader_role,
        member=agent_principal(agent, project),
    )
    words = agent.denied.format(email=agent.email(project), role=grant.role, resource=grant.resource)
    return f"{words} Grant it with {grant.gcloud_command()}"
