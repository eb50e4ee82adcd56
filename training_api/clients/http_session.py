"""What the clients of HTTP APIs have in common: connections that are kept, and closed."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import httpx

from training_api.clients.closing import Closing


class HttpSession(Closing):
    """
    Base of clients; use as a context manager, or call ``close``.

    :param http: the client's own; closed with it.
    """

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; may be called twice."""
        await self._http.aclose()
