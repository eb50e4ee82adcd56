"""A threaded client's connection to the training service: one request, its answer or error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from training_api.clients.api_answers import read_answer
from training_api.clients.http_session import HttpSession
from training_api.clients.network import DEFAULT_NETWORK, Network

DEFAULT_TIMEOUT_SECONDS = 30.0
#: What to do about errors that asking again does not mend.
ADVICE = {
    400: "the request itself is refused: mend what the message names",
    401: "the service wants a token that it knows: the password of the Airflow connection, or TRAINING_TOKEN",
    403: "have an owner of the project give this account a role, such as roles/ml.developer (docs/access.md)",
    404: "look at the job's id and at the connection's project; the service's own list is `jobs list`",
}


class ServiceConnection(HttpSession):
    """
    Base of the service's clients; use as a context manager, or call ``close``.

    Every method raises :class:`TransportError` when the service does not answer, and a :class:`ServiceError`
    of the fitting kind when it answers with an error.

    :param endpoint: ``http://host:port``.
    :param project: project id, the ``*`` of ``projects/*``.
    :param network: the way there; default: what the environment says.
    :param transport: to be used instead; for tests, and for clients that share one.
    """

    def __init__(
        self,
        endpoint: str,
        project: str,
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        headers: Mapping[str, str] | None = None,
        network: Network = DEFAULT_NETWORK,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._project = project
        self._headers = headers
        super().__init__(
            httpx.Client(timeout=timeout_seconds, transport=transport or network.transport(endpoint))
        )

    def _send(self, request: httpx.Request) -> Any:
        return read_answer(self._answer("the training service", request), ADVICE)
