"""
The log of a Swarm task, wherever it runs.

A manager follows a task's log for ever, also after the task has ended: "Follow subscriptions never end"
[github.com/moby/swarmkit, manager/logbroker]. So whoever sees the end closes the connection.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Collection, Iterator

import docker
import requests

from container_engines.base import LogLine
from container_engines.docker.logs import read_frames


class LogFollowers:
    """The logs that are being followed, by service; safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: dict[str, list[socket.socket]] = {}

    def follow(
        self, client: docker.APIClient, service_id: str, task_id: str, since_ns: int
    ) -> Iterator[LogLine]:
        """Yield the task's lines from ``since_ns`` on until ``end`` is called for its service."""
        opened: list[socket.socket] = []

        def on_open(response: requests.Response) -> None:
            # A second handle of the connection: a shutdown through it wakes whoever reads from the first one.
            handle = os.dup(client._get_raw_response_socket(response).fileno())  # type: ignore[attr-defined]
            opened.append(socket.socket(fileno=handle))
            with self._lock:
                self._sockets.setdefault(service_id, []).extend(opened)

        try:
            yield from read_frames(client, f"tasks/{task_id}", since_ns, follow=True, on_open=on_open)
        finally:
            for each in opened:
                with self._lock:
                    self._sockets[service_id].remove(each)
                    if not self._sockets[service_id]:
                        del self._sockets[service_id]
                each.close()

    def end_all_but(self, service_ids: Collection[str]) -> None:
        """End all reading except of ``service_ids``; the rest can be read without following."""
        with self._lock:
            for service_id, sockets in self._sockets.items():
                if service_id not in service_ids:
                    for each in sockets:
                        with contextlib.suppress(OSError):  # the engine has closed it already
                            each.shutdown(socket.SHUT_RDWR)
