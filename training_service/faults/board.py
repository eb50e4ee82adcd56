"""
The present faults, and how often each has happened.

In memory: a restart of the service removes them all.
"""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from training_api.errors import ResourceNotFound
from training_service.faults.rules import (
    Call,
    Chance,
    Fault,
    FaultKind,
    SetFault,
    check,
    hits_call,
    hits_job,
    is_over,
)
from training_service.model.clock import Clock, utc_now

#: A generator of its own: the numbers of a program that seeds `random` stay reproducible.
_CHANCE = random.Random().random  # noqa: S311 - not for secrets


@dataclass(slots=True)
class _Entry:
    fault: Fault
    set_at: datetime
    happened: int = 0


class FaultBoard:
    """Safe for threads. :param chance: draws from 0 up to 1, for faults of a share of the calls."""

    def __init__(self, clock: Clock = utc_now, chance: Chance = _CHANCE) -> None:
        self._clock = clock
        self._chance = chance
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}

    def set(self, fault: Fault) -> SetFault:
        """
        Let ``fault`` happen from now on.

        :raises InvalidRequest: a field is missing, or has no meaning.
        """
        check(fault)
        fault_id = secrets.token_hex(4)
        with self._lock:
            self._entries[fault_id] = entry = _Entry(fault, self._clock())
            return self._shown(fault_id, entry)

    def listed(self) -> list[SetFault]:
        """Return all that were set and not removed, the oldest first."""
        with self._lock:
            return [self._shown(fault_id, entry) for fault_id, entry in self._entries.items()]

    def remove(self, fault_id: str) -> None:
        """:raises ResourceNotFound: there is none of this id."""
        with self._lock:
            if self._entries.pop(fault_id, None) is None:
                raise ResourceNotFound(f"fault {fault_id!r} is not set; GET /faults lists those that are")

    def clear(self) -> None:
        """Remove all."""
        with self._lock:
            self._entries.clear()

    def take_for_call(self, call: Call) -> list[Fault]:
        """Return what happens to ``call``, at most one of a kind, and count it."""
        with self._lock:
            taken: dict[FaultKind, Fault] = {}
            for entry in self._current():
                fault = entry.fault
                if fault.kind not in taken and hits_call(fault, call, self._chance()):
                    entry.happened += 1
                    taken[fault.kind] = fault
            return list(taken.values())

    def of_job(self, kind: FaultKind, job_id: str) -> list[Fault]:
        """Return the faults of ``kind`` that are about ``job_id``, without counting."""
        with self._lock:
            return [
                entry.fault
                for entry in self._current()
                if entry.fault.kind is kind and hits_job(entry.fault, job_id)
            ]

    def count(self, fault: Fault) -> None:
        """Count that ``fault``, one of those that are set, has happened."""
        with self._lock:
            for entry in self._entries.values():
                if entry.fault is fault:
                    entry.happened += 1

    def _current(self) -> Iterator[_Entry]:
        for entry in self._entries.values():
            if not self._is_over(entry):
                yield entry

    def _is_over(self, entry: _Entry) -> bool:
        return is_over(entry.fault, happened=entry.happened, age=self._clock() - entry.set_at)

    def _shown(self, fault_id: str, entry: _Entry) -> SetFault:
        return SetFault(id=fault_id, fault=entry.fault, happened=entry.happened, is_over=self._is_over(entry))
