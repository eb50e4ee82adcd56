"""What jobs have written to the object store, as the store of this project tells it."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from urllib.parse import quote

import httpx

from container_engines.disk_use import DiskUse
from training_service.store.database import to_us

_TIMEOUT_SECONDS = 10.0


class StoredObjects:
    """
    Asks an object store.

    :param endpoint: its URL; another store than this project's knows no answer, and nothing is bounded there.
    """

    def __init__(self, endpoint: str, transport: httpx.BaseTransport | None = None) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._transport = transport

    def below(self, directory: str, since: datetime) -> DiskUse | None:
        """
        Return what was written below ``gs://BUCKET/FOLDER`` since then; ``None``: unknown.

        :raises httpx.HTTPError: the store does not answer, or makes mistakes.
        """
        bucket, _, folder = directory.removeprefix("gs://").partition("/")
        url = f"{self._endpoint}/storage/v1/b/{quote(bucket, safe='')}/use"
        prefix = f"{folder.rstrip('/')}/" if folder else ""
        with httpx.Client(transport=self._transport, trust_env=False, timeout=_TIMEOUT_SECONDS) as client:
            answer = client.get(url, params={"prefix": prefix, "since": to_us(since)})
        if answer.status_code in (HTTPStatus.NOT_FOUND, HTTPStatus.NOT_IMPLEMENTED):
            return None
        answer.raise_for_status()
        use = answer.json()
        return DiskUse(bytes=int(use["bytes"]), files=int(use["objects"]))
