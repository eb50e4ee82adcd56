"""What clients and hooks with connections share: a context manager that closes them."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """Base of what keeps connections; use as a context manager, or call ``close``."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; may be called twice."""
        raise NotImplementedError
