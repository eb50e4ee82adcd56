"""
A project's machines by zone, and its quotas, by Compute Engine and Service Usage.

Source: the discovery documents of ``compute.googleapis.com`` v1 (``aggregatedList``) and
``serviceusage.googleapis.com`` v1beta1 (``services.consumerQuotaMetrics.get``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import quote

import httpx

from training_api.clients.api_answers import read_answer
from training_api.clients.http_session import HttpSession
from training_api.clients.network import DEFAULT_NETWORK, Network
from training_api.clients.service_connection import DEFAULT_TIMEOUT_SECONDS
from training_api.dialects.vertex_v1.quotas import SERVICE
from training_api.errors import TransportError
from training_api.vertex_jobs.address import VertexAddress

#: What Compute Engine lists by zone.
Listed = Literal["machineTypes", "acceleratorTypes"]
_UNLIMITED = -1
_ENABLE = "enable {api}.googleapis.com, and have an owner of the project give this account {role}"
_COMPUTE_ADVICE = {403: _ENABLE.format(api="compute", role="roles/compute.viewer")}
_QUOTA_ADVICE = {403: _ENABLE.format(api="serviceusage", role="roles/serviceusage.serviceUsageViewer")}


class ProjectFacts(HttpSession):
    """
    Reads what a project may use; use as a context manager, or call ``close``.

    Methods do not retry. They raise ``TransportError`` if there is no answer, and ``ServiceError`` if the API
    refuses.

    :param auth: adds a token to each request; ``None``: none is sent.
    :param transport: to be used instead; for tests.
    """

    def __init__(
        self,
        address: VertexAddress,
        *,
        auth: httpx.Auth | None = None,
        headers: Mapping[str, str] | None = None,
        network: Network = DEFAULT_NETWORK,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._project = quote(address.project, safe="")
        self._compute = address.of_api("compute", "")
        self._service_usage = address.of_api("serviceusage", "")
        ways = network.ways(self._compute, self._service_usage, instead=transport)
        super().__init__(httpx.Client(auth=auth, headers=headers, timeout=DEFAULT_TIMEOUT_SECONDS, **ways))

    def zones_of(self, listed: Listed, name: str) -> frozenset[str]:
        """
        Return the zones of all regions that have a machine type or a kind of accelerator.

        :param name: as Compute Engine has it, ``n1-standard-4`` or ``nvidia-tesla-t4``.
        """
        url = f"{self._compute}/compute/v1/projects/{self._project}/aggregated/{listed}"
        found: set[str] = set()
        token = ""
        while True:
            params = {"filter": f'name = "{name}"', **({"pageToken": token} if token else {})}
            answer = self._get("Compute Engine", url, params, _COMPUTE_ADVICE)
            try:
                found |= set(_zones_in(answer, listed, name))
                token = str(answer.get("nextPageToken") or "")
            except (AttributeError, TypeError) as error:
                raise _unreadable(url, answer) from error
            if not token:
                return frozenset(found)

    def quota_limit(self, number: int, metric: str, region: str) -> int | None:
        """
        Return how much of a quota the project may use in a region; ``None``: there is no limit.

        What is in use does not count: the API does not say it.

        :param number: of the project.
        :param metric: ``aiplatform.googleapis.com/NAME``.
        """
        parent = f"projects/{number}/services/{SERVICE}/consumerQuotaMetrics"
        url = f"{self._service_usage}/v1beta1/{parent}/{quote(metric, safe='')}"
        # The view BASIC omits regions without an override, even if their default limit differs.
        answer = self._get("Service Usage", url, {"view": "FULL"}, _QUOTA_ADVICE)
        try:
            limits = [limit for limit in _limits_in(answer, region) if limit != _UNLIMITED]
        except (AttributeError, TypeError, ValueError) as error:
            raise _unreadable(url, answer) from error
        return min(limits, default=None)

    def _get(self, who: str, url: str, params: Mapping[str, str], advice: Mapping[int, str]) -> Any:
        request = self._http.build_request("GET", url, params=params)
        return read_answer(self._answer(who, request), advice)


def _zones_in(answer: Any, listed: Listed, name: str) -> Iterator[str]:
    """Yield the zones of a page; scopes without an entry have a warning in its place."""
    for scope, content in (answer.get("items") or {}).items():
        if any(each.get("name") == name for each in content.get(listed) or ()):
            yield scope.removeprefix("zones/")


def _limits_in(answer: Any, region: str) -> Iterator[int]:
    """
    Yield a metric's limits in a region.

    Limits of requests a minute are left out.
    """
    for limit in answer.get("consumerQuotaLimits") or ():
        _, *dimensions = str(limit.get("unit") or "").split("/")
        if not all(part.startswith("{") for part in dimensions):
            continue
        fitting = [
            bucket
            for bucket in limit.get("quotaBuckets") or ()
            if (bucket.get("dimensions") or {}).items() <= {"region": region}.items()
        ]
        if fitting:  # from the least to the most specific; a limit of 0 may be left out, as JSON's zeros are
            yield int(fitting[-1].get("effectiveLimit") or 0)


def _unreadable(url: str, answer: Any) -> TransportError:
    return TransportError(f"{url} answered with what is not its resource: {answer!r:.200}")
