"""What the clients of HTTP APIs have in common: connections that are kept, and closed."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import httpx


class HttpSession:
    """
    Base of clients; use as a context manager, or call ``close``.

    :param http: the client's own; closed with it.
    """

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self._http.close()
