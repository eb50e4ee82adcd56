"""What the clients of HTTP APIs have in common: connections that are kept, and closed."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import httpx

from training_api.clients.api_answers import NO_ANSWER, transport_error
from training_api.clients.closing import Closing


class HttpSession(Closing):
    """
    Base of clients; use as a context manager, or call ``close``.

    :param http: the client's own; closed with it.
    """

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def _answer(self, who: str, request: httpx.Request) -> httpx.Response:
        """
        Return the answer of ``who``, good or bad.

        :raises TransportError: there is none.
        """
        try:
            return self._http.send(request)
        except NO_ANSWER as error:
            raise transport_error(who, request, error) from error

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self._http.close()


class AsyncHttpSession:
    """
    The twin of :class:`HttpSession` for asyncio.

    :param http: the client's own; closed with it.
    """

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def _answer(self, who: str, request: httpx.Request) -> httpx.Response:
        """
        Return the answer of ``who``, good or bad.

        :raises TransportError: there is none.
        """
        try:
            return await self._http.send(request)
        except NO_ANSWER as error:
            raise transport_error(who, request, error) from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._http.aclose()
