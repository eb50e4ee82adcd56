"""Watching a place in the object store for new data."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from container_training.hooks.storage import StorageHook
from container_training.hooks.training import TrainingHook
from container_training.work.models.versions import SnapshotDigest
from container_training.work.object_store import ObjectStore
from training_api.job.results import ResultFile

#: Stands for the ``job_bucket`` of the training connection: a DAG file cannot read connections.
BUCKET_MARK = "{job_bucket}"
#: Key of what was seen last in the asset's state store.
SEEN = "container_training.seen"
_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """
    What lies at an address: of any number of objects it keeps a digest and the newest ones.

    :param snapshot_id: differs for other names or generations.
    """

    snapshot_id: str
    count: int
    newest: list[ResultFile]


class ObjectChangeTrigger(BaseEventTrigger):
    """
    Fires when objects were written or deleted at an address, once they rest.

    It is made for an ``AssetWatcher``.

    What lies there when the watch begins is no news. What was seen is kept in the asset's state store, so
    that a restart of the triggerer neither misses a change nor tells of it again; a restart at the very
    moment of an event may tell of it twice.

    All objects are watched, however many there are: a look lists them page by page, and keeps a digest.
    A look at a million objects takes a thousand requests, so let ``poll_interval_seconds`` fit the place.

    The event's payload has ``uri``, ``objects`` (the newest 20, with their generations) and ``count``.
    Nothing is fired for a place that was emptied.

    :param uri: ``gs://`` address of an object, or of a folder, which ends with a slash; ``{job_bucket}``
        stands for that of ``training_conn_id``.
    :param poll_interval_seconds: between two looks; a change is told when two looks found the same.
    :param max_objects: not used any more. It stays in what is stored: Airflow knows a trigger by that.
    """

    def __init__(
        self,
        *,
        uri: str,
        poll_interval_seconds: float = 30.0,
        max_objects: int = 10_000,
        training_conn_id: str = TrainingHook.default_conn_name,
        gcp_conn_id: str = StorageHook.default_conn_name,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.uri = uri
        self.poll_interval_seconds = poll_interval_seconds
        self.max_objects = max_objects
        self.training_conn_id = training_conn_id
        self.gcp_conn_id = gcp_conn_id
        # Tests put a virtual clock here.
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and all arguments."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "uri": self.uri,
                "poll_interval_seconds": self.poll_interval_seconds,
                "max_objects": self.max_objects,
                "training_conn_id": self.training_conn_id,
                "gcp_conn_id": self.gcp_conn_id,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look, without end; yield an event for each change."""
        seen = await self._remembered()
        before: str | None = None
        place: tuple[ObjectStore, str] | None = None
        is_silent = False
        while True:
            try:
                if place is None:
                    place = await sync_to_async(self._place)()
                store, uri = place
                # In a thread of its own: a store that does not answer must not hold up what other triggers
                # do.
                look = await sync_to_async(_look, thread_sensitive=False)(store, uri)
            except Exception as error:
                # Whatever keeps the store from answering, the watch must outlive it; the log says so once.
                if not is_silent:
                    self.log.warning("%s cannot be looked at, and is asked again: %s", self.uri, error)
                is_silent = True
                await self.sleep(self.poll_interval_seconds)
                continue
            if is_silent:
                self.log.info("%s answers again", self.uri)
                is_silent = False
            now = look.snapshot_id
            if seen is None:
                self.log.info("watching %s: %d objects are there", uri, look.count)
                seen = await self._remember(now)
            elif now != seen and now == before:
                if look.count:
                    yield TriggerEvent(_payload(uri, look))  # type: ignore[no-untyped-call]
                seen = await self._remember(now)
            before = now
            await self.sleep(self.poll_interval_seconds)

    def _place(self) -> tuple[ObjectStore, str]:
        """
        Return the store and the address.

        It reads connections, which Airflow allows in one thread only.
        """
        uri = self.uri
        if BUCKET_MARK in uri:
            extra = TrainingHook(self.training_conn_id).get_connection(self.training_conn_id).extra_dejson
            uri = uri.replace(BUCKET_MARK, str(extra.get("job_bucket", "")).rstrip("/"))
        return StorageHook(self.gcp_conn_id).get_conn(), uri

    async def _remembered(self) -> str | None:
        if self.asset_state_store is None:
            return None
        found = await self.asset_state_store.aget(self._key)
        return str(found) if found is not None else None

    async def _remember(self, seen: str) -> str:
        if self.asset_state_store is not None:
            await self.asset_state_store.aset(self._key, seen)
        return seen

    @property
    def _key(self) -> str:
        """The place is part of it: a watcher that is pointed elsewhere begins anew."""
        return f"{SEEN}:{self.uri}"


def _look(store: ObjectStore, uri: str) -> _Look:
    if uri.endswith("/"):
        files = store.files(uri)
    else:
        file = store.find(uri)
        files = iter([file] if file else [])
    digest = SnapshotDigest()
    newest = heapq.nlargest(_SHOWN, digest.over(files), key=lambda file: file.generation or 0)
    return _Look(snapshot_id=digest.snapshot_id, count=digest.count, newest=newest)


def _payload(uri: str, look: _Look) -> dict[str, Any]:
    return {"uri": uri, "count": look.count, "objects": [file.pinned_uri for file in look.newest]}
