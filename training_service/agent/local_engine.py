"""
The engine of the agent's machine: how containers ended, and what they use.

It is only read: what the agent asks of it is a list, an inspection and statistics.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import structlog

from container_engines.base import Usage
from container_engines.docker.stats import usage_of
from container_engines.gpu_meter import GpuMeter
from container_engines.swarm.facts import NO_FACTS, MachineFacts
from container_engines.swarm.gpus import gpus_of_environment

#: Engine 20.10 and newer.
API = "http://engine/v1.41"
TIMEOUT_SECONDS = 5.0
_FIRST_PAUSE_SECONDS = 2.0
#: A sample of a container is taken so often, and less often as it gets older: age / 250, as the service's.
_SAMPLES_PER_AGE = 250

logger = structlog.get_logger(__name__)


class LocalEngine:
    """
    The containers of one training service on this machine. Not safe for threads.

    :param socket: path of the engine's socket; empty: there is none, and nothing is known.
    :param label: ``NAME=VALUE`` that these containers carry.
    :param clock: seconds since the epoch.
    """

    def __init__(
        self,
        socket: str,
        label: str,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._label = label
        self._clock = clock
        self._http = (
            httpx.Client(transport=transport or httpx.HTTPTransport(uds=socket), timeout=TIMEOUT_SECONDS)
            if socket
            else None
        )
        self._ends: dict[str, bool] = {}
        #: When each was sampled, and what it used.
        self._samples: dict[str, tuple[float, Usage]] = {}
        self._gpu_meter = GpuMeter()
        #: The GPUs of each running container.
        self._gpus: dict[str, tuple[str, ...]] = {}
        self._problem = ""

    def close(self) -> None:
        """Close the connections."""
        if self._http:
            self._http.close()

    def facts(self) -> MachineFacts:
        """Return what is known now; what the engine does not answer is left out."""
        if self._http is None:
            return NO_FACTS
        try:
            self._look(self._http)
            self._problem = ""
        except (httpx.HTTPError, ValueError, KeyError) as error:
            if self._problem != (problem := type(error).__name__):
                logger.error("the engine of this machine does not answer", reason=str(error) or problem)
            self._problem = problem
        now = self._clock()
        return MachineFacts(
            out_of_memory=dict(self._ends),
            usage={
                name: replace(usage, age_seconds=max(now - at, 0.0))
                for name, (at, usage) in self._samples.items()
            },
        )

    def _look(self, http: httpx.Client) -> None:
        listed = _get(http, "/containers/json", all="true", filters=json.dumps({"label": [self._label]}))
        running = {item["Id"]: float(item["Created"]) for item in listed if item["State"] == "running"}
        ended = {item["Id"] for item in listed if item["State"] in ("exited", "dead")}
        self._ends = {name: value for name, value in self._ends.items() if name in ended}
        self._samples = {name: value for name, value in self._samples.items() if name in running}
        self._gpus = {name: value for name, value in self._gpus.items() if name in running}
        for name in ended - self._ends.keys():
            found = _get(http, f"/containers/{name}/json")
            if found is not None:
                self._ends[name] = bool(found["State"]["OOMKilled"])
        for name, created in running.items():
            self._sample(http, name, created)

    def _sample(self, http: httpx.Client, name: str, created: float) -> None:
        now = self._clock()
        pause = max(_FIRST_PAUSE_SECONDS, (now - created) / _SAMPLES_PER_AGE)
        if name in self._samples and now - self._samples[name][0] < pause:
            return
        stats = _get(http, f"/containers/{name}/stats", stream="false", **{"one-shot": "true"})
        usage = usage_of(stats) if stats else None
        if usage:
            self._samples[name] = self._clock(), self._with_gpus(http, name, usage)

    def _with_gpus(self, http: httpx.Client, name: str, usage: Usage) -> Usage:
        """Return ``usage`` with that of the container's GPUs, if it has some and the driver tells."""
        if name not in self._gpus:
            found = _get(http, f"/containers/{name}/json")
            self._gpus[name] = gpus_of_environment(found["Config"]["Env"] or ()) if found else ()
        use = self._gpu_meter.read(self._gpus[name]) if self._gpus[name] else None
        return replace(usage, gpus=use.gpus, gpu_memory_bytes=use.memory_bytes) if use else usage


def _get(http: httpx.Client, path: str, **params: str) -> Any:
    """Return an answer of the engine; ``None``: the container is gone."""
    answer = http.get(f"{API}{path}", params=params)
    if answer.status_code == 404:
        return None
    answer.raise_for_status()
    return answer.json()
