"""
Tells which containers died with their engine: it found them dead at its start. Pure.

When an engine starts after it was killed, alone or with its machine, it looks for its running containers. If
one is gone, the engine writes exit code 255 and the current time for it [moby: daemon.restore, libcontainerd
restoredProcess.Delete]. A program may end with 255, too. But when the engine sees a container end, it removes
the container from its networks before it writes the end. At its start it cannot, as it has no networks yet
[moby: daemon.handleContainerExit, releaseNetwork]. Seen with Engine 20.10.24; the sources of 29 are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_UNKNOWN = 255
#: Go's zero time.
_NEVER = "0001-01-01"


def was_half_started(state: Mapping[str, Any]) -> bool:
    """
    Tell whether the engine was killed while it started the container.

    The engine reports such a container as running with a zero start time, and does not see its end. Seen with
    Engine 20.10.24.

    :param state: ``State`` of the answer of ``containers/ID/json``.
    """
    return state["Status"] == "running" and str(state["StartedAt"]).startswith(_NEVER)


def was_lost(described: Mapping[str, Any]) -> bool:
    """
    Tell whether the container died while the engine was down.

    ``False`` for a container on the host's network, which has no endpoint.

    :param described: the answer of ``containers/ID/json``.
    """
    state = described["State"]
    if state["Status"] not in ("exited", "dead") or state["ExitCode"] != _UNKNOWN:
        return False
    networks = (described.get("NetworkSettings") or {}).get("Networks") or {}
    return any((network or {}).get("EndpointID") for network in networks.values())
