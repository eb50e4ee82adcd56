"""The models of projects, read at most once a minute for readers of the same DAGs."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from training_api.fleet.history import ModelHistory

#: A model's age is counted in days.
KEEP_SECONDS = 60.0
#: Lists that are kept; each has at most ``MAX_MODELS`` models.
MAX_LISTS = 16

Readers = tuple[str, frozenset[str] | None]


class KeptModels:
    """
    Lists of models by project and DAGs; safe for threads.

    To make one the database reads all jobs that ever ended, as the last good one may be years old.

    :param clock: seconds that never run backwards; for tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Readers, tuple[float, list[ModelHistory]]] = OrderedDict()

    def of(
        self, project: str, dags: Sequence[str] | None, read: Callable[[], list[ModelHistory]]
    ) -> list[ModelHistory]:
        """Return the models, at most ``KEEP_SECONDS`` old; ``read`` is called where none are kept."""
        readers = project, None if dags is None else frozenset(dags)
        now = self._clock()
        with self._lock:
            kept = self._kept.get(readers)
        if kept and now < kept[0] + KEEP_SECONDS:
            return kept[1]
        found = read()  # without the lock: other projects need not wait for it
        with self._lock:
            self._kept[readers] = (now, found)
            self._kept.move_to_end(readers)
            while len(self._kept) > MAX_LISTS:
                self._kept.popitem(last=False)
        return found
