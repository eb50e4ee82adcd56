"""What hooks have in common that keep clients: whoever makes the hook closes their connections."""

from __future__ import annotations

from types import TracebackType
from typing import ClassVar, Self

from airflow.sdk import BaseHook


class ClosingHook(BaseHook):
    """
    Base of hooks that keep clients; use as a context manager, or call ``close``.

    :cvar kept: names of the cached properties whose values are closed.
    """

    kept: ClassVar[tuple[str, ...]] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections of the clients that were made; may be called twice. The next use makes new clients."""
        for name in self.kept:
            client = self.__dict__.pop(name, None)
            if client is not None:
                client.close()
