"""
What jobs' containers on the agent's machine have written, as its engine counts.

The engine walks through the container's root for it, which may take long, so nothing else waits for this.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import structlog

from training_service.agent.local_engine import API

#: As the service has it on one machine: ``upkeep/disk_watch.py``.
_PAUSE_SECONDS, _PAUSE_SHARE, _LONGEST_PAUSE_SECONDS = 15.0, 20.0, 120.0
#: Each tick asks the engine which containers there are.
_TICK_SECONDS = 5.0
_TIMEOUT_SECONDS = 20.0

logger = structlog.get_logger(__name__)


class DiskSampler:
    """
    Asks the engine in turn for each running container.

    :param socket: path of the engine's socket.
    :param label: ``NAME=VALUE`` that these containers carry.
    :param clock: seconds, from any origin.
    """

    def __init__(
        self,
        socket: str,
        label: str,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label = label
        self._clock = clock
        self._http = httpx.Client(
            base_url=API, transport=transport or httpx.HTTPTransport(uds=socket), timeout=_TIMEOUT_SECONDS
        )
        self._stopping = threading.Event()
        self._due_at: Mapping[str, float] = {}
        self._sizes: Mapping[str, int] = {}
        self._problem = ""

    @property
    def sizes(self) -> Mapping[str, int]:
        """The bytes of each running container, as far as they were counted."""
        return self._sizes

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="disks", daemon=True).start()

    def stop(self) -> None:
        """End it after the question that is under way."""
        self._stopping.set()

    def sample(self) -> None:
        """Ask for the containers whose time has come; what is not answered is asked for later."""
        try:
            filters = json.dumps({"label": [self._label]})
            running = {item["Id"] for item in self._get("/containers/json", filters=filters) or ()}
            self._sizes = {name: size for name, size in self._sizes.items() if name in running}
            self._due_at = {name: self._due_at.get(name, 0.0) for name in running}
            for name, due_at in self._due_at.items():
                if due_at <= self._clock() and not self._stopping.is_set():
                    self._count(name)
            self._problem = ""
        except (httpx.HTTPError, ValueError, KeyError) as error:
            if self._problem != (problem := type(error).__name__):
                logger.error("the engine of this machine does not count", reason=str(error) or problem)
            self._problem = problem

    def _count(self, name: str) -> None:
        began = self._clock()
        try:
            found = self._get(f"/containers/{name}/json", size="true")
            size = int(found.get("SizeRw") or 0) if found else -1
            if size >= 0:  # -1: it is gone, or the engine could not count it
                self._sizes = {**self._sizes, name: size}
        finally:
            now = self._clock()
            pause = min(max(_PAUSE_SECONDS, _PAUSE_SHARE * (now - began)), _LONGEST_PAUSE_SECONDS)
            self._due_at = {**self._due_at, name: now + pause}

    def _get(self, path: str, **params: str) -> Any:
        answer = self._http.get(path, params=params)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        answer.raise_for_status()
        return answer.json()

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_SECONDS):
            try:
                self.sample()
            except Exception:
                # Without this thread no limit holds here; the trace is in the log.
                logger.exception("what containers write was not counted")
        self._http.close()
