"""
Repositories of Artifact Registry over HTTP: made, and told which images to remove.

Source: the discovery document of ``artifactregistry.googleapis.com`` v1, ``projects.locations.repositories``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx

from training_api.clients.api_answers import read_answer
from training_api.clients.http_session import HttpSession
from training_api.clients.network import DEFAULT_NETWORK, Network
from training_api.clients.patience import patiently
from training_api.errors import InvalidArgument, JobConflict, JobNotFound, ServiceError, ServiceUnavailable
from training_api.retrying import TRANSIENT

DEFAULT_TIMEOUT_SECONDS = 30.0
#: How long a repository may take; one takes a few seconds.
PATIENCE_SECONDS = 120.0
_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanUp:
    """
    Which images a repository removes by itself.

    :param keep_newest: how many versions of each image stay, however old they are.
    :param delete_after: how old the others may become.
    :raises InvalidArgument: nothing would stay, or a value is not positive.
    """

    keep_newest: int
    delete_after: timedelta

    def __post_init__(self) -> None:
        if self.keep_newest < 1 or self.delete_after < timedelta(days=1):
            raise InvalidArgument(
                f"a clean-up must keep at least 1 version of an image and each for at least a day, got "
                f"keep_newest={self.keep_newest}, delete_after={self.delete_after}"
            )

    def to_wire(self) -> dict[str, Any]:
        """Return the API's ``cleanupPolicies``: what one keeps, the other does not delete."""
        seconds = round(self.delete_after.total_seconds())
        keep, delete = "container-training-keep", "container-training-delete"
        return {
            keep: {"id": keep, "action": "KEEP", "mostRecentVersions": {"keepCount": self.keep_newest}},
            delete: {
                "id": delete,
                "action": "DELETE",
                "condition": {"tagState": "ANY", "olderThan": f"{seconds}s"},
            },
        }


class RepositoriesClient(HttpSession):
    """
    Makes repositories; use as a context manager, or call ``close``.

    :param endpoint: base URL of the API, without a path.
    :param auth: puts credentials on requests.
    :param transport: to be used instead; for tests.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        auth: httpx.Auth | None = None,
        network: Network = DEFAULT_NETWORK,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._sleep = sleep
        way = transport or network.transport(endpoint)
        super().__init__(httpx.Client(auth=auth, timeout=DEFAULT_TIMEOUT_SECONDS, transport=way))

    def ensure(self, name: str, clean_up: CleanUp | None = None) -> bool:
        """
        Make the repository ``name`` for images unless it is there; return whether it was made.

        :param name: ``projects/P/locations/L/repositories/R``.
        :param clean_up: takes the place of the clean-up that the repository has; default: that stays.
        :raises InvalidArgument: there is a repository of that name, and it is not for Docker images.
        :raises AccessDenied: the caller may not.
        :raises ServiceError: it was not made, and the message says why.
        :raises TransportError: nobody answers.
        """
        policies = clean_up.to_wire() if clean_up else {}
        found = self._ask(self._get, name)
        if found is None:
            if self._create(name, policies):
                return True
            # Another client created it, or the answer of our own create was lost. Reads may lag behind.
            found = self._wait_for(
                lambda: self._ask(self._get, name), f"repository {name} cannot be read yet"
            )
        if found.get("format") != "DOCKER":
            raise InvalidArgument(
                f"repository {name} must be for Docker images, but its format is {found.get('format')}; choose "
                "another name"
            )
        if policies and found.get("cleanupPolicies") != policies:
            self._patch(name, policies)
        return False

    def _get(self, name: str) -> dict[str, Any] | None:
        try:
            return self._send("GET", name)
        except JobNotFound:
            return None

    def _create(self, name: str, policies: Mapping[str, Any]) -> bool:
        """Make it and wait until it is there; ``False``: there is one already."""
        parent, _, repository = name.partition("/repositories/")
        body = {"format": "DOCKER", **({"cleanupPolicies": policies} if policies else {})}
        try:
            operation = self._ask(
                self._send, "POST", f"{parent}/repositories", body=body, params={"repositoryId": repository}
            )
        except JobConflict:
            return False

        def done() -> dict[str, Any] | None:
            nonlocal operation
            if not operation.get("done"):
                operation = self._ask(self._send, "GET", str(operation["name"]))
            return operation if operation.get("done") else None

        self._wait_for(done, f"repository {name} is still being made: {operation.get('name')}")
        if error := operation.get("error"):
            raise ServiceError(f"repository {name} was not made: {error.get('message') or error}")
        return True

    def _wait_for(self, look: Callable[[], dict[str, Any] | None], what: str) -> dict[str, Any]:
        """Return what ``look`` finds. :raises ServiceUnavailable: nothing for too long."""
        waited = 0.0
        while (found := look()) is None:
            if waited >= PATIENCE_SECONDS:
                raise ServiceUnavailable(f"{what}, after {PATIENCE_SECONDS:g} s; try again later")
            self._sleep(_POLL_SECONDS)
            waited += _POLL_SECONDS
        return found

    def _patch(self, name: str, policies: Mapping[str, Any]) -> None:
        self._ask(
            self._send,
            "PATCH",
            name,
            body={"cleanupPolicies": policies},
            params={"updateMask": "cleanupPolicies"},
        )

    def _ask(self, question: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return patiently(PATIENCE_SECONDS, errors=TRANSIENT, sleep=self._sleep)(question, *arguments, **named)

    def _send(
        self, method: str, path: str, *, body: Any = None, params: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        url = f"{self._endpoint}/v1/{quote(path, safe='/:')}"
        request = self._http.build_request(method, url, json=body, params=params)
        answer: dict[str, Any] = read_answer(self._answer("Artifact Registry", request))
        return answer
