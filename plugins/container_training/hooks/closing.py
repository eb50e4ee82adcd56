"""Base of hooks that keep clients. The caller that makes a hook closes it."""

from __future__ import annotations

from typing import ClassVar

from airflow.sdk import BaseHook

from training_api.clients.closing import Closing


class ClosingHook(Closing, BaseHook):
    """
    Base of hooks that keep clients.

    :cvar kept: names of the cached properties whose values are closed.
    """

    kept: ClassVar[tuple[str, ...]] = ()

    def close(self) -> None:
        """
        Close the clients that were made; may be called twice.

        The next use makes new clients.
        """
        for name in self.kept:
            client = self.__dict__.pop(name, None)
            if client is not None:
                client.close()
