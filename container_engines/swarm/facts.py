"""What the agents of machines say of the containers there, which a manager cannot ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from container_engines.base import Usage

#: What an agent has not repeated for so long says nothing of now.
_FRESH_SECONDS = 60.0
#: The same of the rules, which a machine that starts again does not have: agents speak every two seconds, and
#: no machine starts within this time.
_FRESH_EGRESS_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """
    What an agent says of its machine.

    :param out_of_memory: of each container that has ended: whether the kernel ended it for its memory.
    :param usage: what each running container uses.
    :param disk: bytes that each running container has written to its root, if its agent counts them.
    :param egress: the digest of the egress that the rules there hold; empty: there are none.
    """

    out_of_memory: Mapping[str, bool]
    usage: Mapping[str, Usage]
    egress: str = ""
    disk: Mapping[str, int] = field(default_factory=dict)


NO_FACTS = MachineFacts(out_of_memory={}, usage={})


class NodeFacts:
    """
    The newest facts of each machine; safe for threads.

    :param clock: seconds, from any origin.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._told: dict[str, tuple[float, MachineFacts]] = {}

    def tell(self, machine: str, facts: MachineFacts) -> None:
        """Take the place of what was known of a machine."""
        with self._lock:
            self._told[machine] = self._clock(), facts

    def out_of_memory(self, machine: str, container_id: str) -> bool | None:
        """Whether a container ended for its memory; ``None``: nothing was said of its end."""
        with self._lock:
            told = self._told.get(machine)
        return told[1].out_of_memory.get(container_id) if told else None

    def holds_egress(self, machine: str, digest: str) -> bool:
        """Whether a machine has the rules of an egress, as its agent has just said."""
        with self._lock:
            told = self._told.get(machine)
        return (
            told is not None and told[1].egress == digest and self._clock() - told[0] < _FRESH_EGRESS_SECONDS
        )

    def disk(self, machine: str, container_id: str) -> int | None:
        """Return the bytes that a container has written; ``None``: nothing was said lately."""
        with self._lock:
            told = self._told.get(machine)
        is_fresh = told is not None and self._clock() - told[0] < _FRESH_SECONDS
        return told[1].disk.get(container_id) if told and is_fresh else None

    def usage(self, machine: str, container_id: str) -> Usage | None:
        """Return what a container uses; ``None``: nothing was said lately."""
        with self._lock:
            told = self._told.get(machine)
        usage = told[1].usage.get(container_id) if told else None
        if told is None or usage is None:
            return None
        since = self._clock() - told[0]
        return replace(usage, age_seconds=usage.age_seconds + since) if since < _FRESH_SECONDS else None
