"""
IAM policies of projects, repositories and buckets over HTTP, each by its own API.

Policies are changed by reading, changing and writing them back with the etag that was read: whoever was
overtaken starts again from the new policy, so that no writer loses another's change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from training_api.clients.api_answers import read_answer, service_error
from training_api.clients.http_session import HttpSession
from training_api.clients.network import DEFAULT_NETWORK, Network
from training_api.clients.patience import patiently
from training_api.errors import EditConflict, ResourceNotFound, TransportError
from training_api.iam.grants import PolicyDocument
from training_api.iam.registry_resources import ResourceKind
from training_api.retrying import TRANSIENT

DEFAULT_TIMEOUT_SECONDS = 30.0
#: How long one change is tried, over conflicts and missing answers alike.
DEFAULT_PATIENCE_SECONDS = 60.0
_FIRST_BACKOFF_SECONDS = 0.05
#: Policies with conditions are shown to those who ask for this version only, and must be written with it.
_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class IamEndpoints:
    """Base URLs of the APIs that hold policies, without a path."""

    resource_manager: str = "https://cloudresourcemanager.googleapis.com"
    artifact_registry: str = "https://artifactregistry.googleapis.com"
    storage: str = "https://storage.googleapis.com"

    @property
    def all(self) -> tuple[str, ...]:
        """Each of them once."""
        return tuple(dict.fromkeys((self.resource_manager, self.artifact_registry, self.storage)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEdit:
    """
    What became of a change.

    :param was_written: whether this edit changed the policy, perhaps by a request whose answer was lost.
    """

    was_written: bool
    before: PolicyDocument
    after: PolicyDocument


class IamPoliciesClient(HttpSession):
    """
    Reads and changes policies; use as a context manager, or call ``close``. Safe for threads.

    Every method raises :class:`TransportError` when the API does not answer, :class:`ResourceNotFound`,
    :class:`AccessDenied` or another :class:`ServiceError` when it refuses.

    :param auth: puts credentials on requests.
    :param network: the way to the APIs; default: what the environment says.
    :param transport: to be used instead; for tests.
    """

    def __init__(
        self,
        endpoints: IamEndpoints,
        *,
        auth: httpx.Auth | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        patience_seconds: float = DEFAULT_PATIENCE_SECONDS,
        network: Network = DEFAULT_NETWORK,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._endpoints = endpoints
        self._patience_seconds = patience_seconds
        ways = network.ways(*endpoints.all, instead=transport)
        super().__init__(httpx.Client(auth=auth, timeout=timeout_seconds, **ways))

    def get_policy(self, kind: ResourceKind, resource: str) -> PolicyDocument:
        """Return the policy of ``resource`` with its etag, conditions included."""
        url = self._url(kind, resource)
        if kind is ResourceKind.PROJECT:
            body = {"options": {"requestedPolicyVersion": _VERSION}}
            return self._send("POST", f"{url}:getIamPolicy", body=body)
        if kind is ResourceKind.BUCKET:
            return self._send("GET", f"{url}/iam", params={"optionsRequestedPolicyVersion": _VERSION})
        return self._send("GET", f"{url}:getIamPolicy", params={"options.requestedPolicyVersion": _VERSION})

    def set_policy(self, kind: ResourceKind, resource: str, policy: PolicyDocument) -> PolicyDocument:
        """
        Write ``policy`` over the one with the same etag, and return it as it is now.

        :raises EditConflict: the policy has changed since; nothing was written.
        """
        url = self._url(kind, resource)
        if kind is ResourceKind.BUCKET:
            return self._send("PUT", f"{url}/iam", body=dict(policy))
        return self._send("POST", f"{url}:setIamPolicy", body={"policy": dict(policy)})

    def held_permissions(self, bucket: str, wanted: Sequence[str]) -> frozenset[str]:
        """
        Return those of ``wanted`` that the caller has on a bucket, which needs no right itself.

        :param bucket: ``buckets/B``.
        """
        url = f"{self._url(ResourceKind.BUCKET, bucket)}/iam/testPermissions"
        answer = self._send("GET", url, params={"permissions": wanted})
        return frozenset(answer.get("permissions") or ())

    def edit_policy(
        self,
        kind: ResourceKind,
        resource: str,
        change: Callable[[PolicyDocument], PolicyDocument | None],
        before_write: Callable[[], None] = lambda: None,
    ) -> PolicyEdit:
        """
        Apply ``change`` to the policy of ``resource``.

        It is applied again after a conflict or a missing answer.

        :param change: returns the new policy, or ``None`` where nothing has to change; may be called several
            times.
        :param before_write: called before each write, to note what is about to happen.
        :raises EditConflict: others were faster for the whole time.
        """
        answer_is_missing = False
        retrying = patiently(
            self._patience_seconds,
            errors=(EditConflict, *TRANSIENT),
            first_backoff_seconds=_FIRST_BACKOFF_SECONDS,
        )
        for attempt in retrying:
            with attempt:
                before = self.get_policy(kind, resource)
                after = change(before)
                if after is None:
                    return PolicyEdit(was_written=answer_is_missing, before=before, after=before)
                before_write()
                try:
                    written = self.set_policy(kind, resource, after)
                except TRANSIENT:
                    answer_is_missing = True
                    raise
                return PolicyEdit(was_written=True, before=before, after=written)
        raise AssertionError("tenacity ends with a result or an error")

    def _url(self, kind: ResourceKind, resource: str) -> str:
        path = quote(resource, safe="/:")
        if kind is ResourceKind.PROJECT:
            return f"{self._endpoints.resource_manager.rstrip('/')}/v1/{path}"
        if kind is ResourceKind.BUCKET:
            return f"{self._endpoints.storage.rstrip('/')}/storage/v1/b/{path.removeprefix('buckets/')}"
        return f"{self._endpoints.artifact_registry.rstrip('/')}/v1/{path}"

    def _send(
        self,
        method: str,
        url: str,
        *,
        body: Any = None,
        params: Mapping[str, int | Sequence[str]] | None = None,
    ) -> PolicyDocument:
        request = self._http.build_request(method, url, json=body, params=params)
        response = self._answer("the IAM policy's API", request)
        if response.status_code in (409, 412):
            raise EditConflict(str(service_error(response)))
        if response.status_code == 404:
            raise ResourceNotFound(str(service_error(response)))
        policy = read_answer(response)
        if not isinstance(policy, dict):
            raise TransportError(f"{request.url} answered with what is no policy: {policy!r}")
        return policy
