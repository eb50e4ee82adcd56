"""A container's statistics as the Docker Engine reports them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from container_engines.base import Usage

#: The kernel's file cache, which it can drop: cgroup v1, cgroup v2
#: [docker/cli: calculateMemUsageUnixNoCache].
_CACHES = ("total_inactive_file", "inactive_file")


def usage_of(stats: Mapping[str, Any]) -> Usage | None:
    """Return the usage in an answer of ``containers/ID/stats``; ``None``: it does not run."""
    memory = stats.get("memory_stats") or {}
    if "usage" not in memory:
        return None
    details = memory.get("stats") or {}
    cache = next((details[name] for name in _CACHES if name in details), 0)
    nanoseconds = stats["cpu_stats"]["cpu_usage"]["total_usage"]
    return Usage(cpu_seconds=nanoseconds / 1e9, memory_bytes=max(memory["usage"] - cache, 0))
