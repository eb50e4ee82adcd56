"""Lines that are left out while the disk of the database is full. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from training_service.intake.log_limiter import LOSS_SUFFIX, Loss
from training_service.store.logs.log_store import NewLogEntry


class LogOverflow:
    """What one replica has lost since it was told last. Not safe for threads."""

    def __init__(self) -> None:
        self._loss: Loss | None = None

    @property
    def loss(self) -> Loss | None:
        """What is to be told; ``None``: nothing was lost."""
        return self._loss

    def add(self, entries: Sequence[NewLogEntry], size: int) -> Loss | None:
        """
        Leave out ``entries``, oldest first; return what they are by themselves.

        :param size: bytes of their lines.
        """
        # Those that tell of a loss have been counted.
        ids = [entry.insert_id for entry in entries if not entry.insert_id.endswith(LOSS_SUFFIX)]
        if not ids:
            return None
        added = Loss(
            insert_id=f"{ids[-1]}{LOSS_SUFFIX}",
            lines=len(ids),
            size=size,
            first_ns=_instant(ids[0]),
            last_ns=_instant(ids[-1]),
            is_disk_full=True,
        )
        before = self._loss
        self._loss = Loss(
            insert_id=added.insert_id,
            lines=added.lines + (before.lines if before else 0),
            size=size + (before.size if before else 0),
            first_ns=before.first_ns if before else added.first_ns,
            last_ns=added.last_ns,
            is_disk_full=True,
        )
        return added

    def clear(self) -> None:
        """Forget what was lost: it is told."""
        self._loss = None


def _instant(insert_id: str) -> int:
    """Return the nanosecond that a line's insert id begins with."""
    return int(insert_id[:20])
