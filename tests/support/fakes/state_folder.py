"""A custom backend of Airflow's state store: values are files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from airflow.state import BaseStoreBackend, StoreScope


class FolderBackend(BaseStoreBackend):
    """Keeps values below the folder of the environment variable ``STATE_FOLDER``."""

    def get(self, scope: StoreScope, key: str, *, session: Any = None) -> str | None:
        path = self._path(scope, key)
        return path.read_text() if path.exists() else None

    def set(self, scope: StoreScope, key: str, value: str, **_: Any) -> None:
        self._path(scope, key).write_text(value)

    def delete(self, scope: StoreScope, key: str, *, session: Any = None) -> None:
        raise NotImplementedError

    def clear(self, scope: StoreScope, **_: Any) -> None:
        raise NotImplementedError

    async def aget(self, scope: StoreScope, key: str, *, session: Any = None) -> str | None:
        raise NotImplementedError

    async def aset(self, scope: StoreScope, key: str, value: str, **_: Any) -> None:
        raise NotImplementedError

    async def adelete(self, scope: StoreScope, key: str, *, session: Any = None) -> None:
        raise NotImplementedError

    async def aclear(self, scope: StoreScope, **_: Any) -> None:
        raise NotImplementedError

    @staticmethod
    def _path(scope: StoreScope, key: str) -> Path:
        return Path(os.environ["STATE_FOLDER"]) / quote(f"{scope} {key}", safe="")
