"""The models of projects: all ends are read once a minute, in between the new ones."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from training_api.fleet.history import EndedJob, ModelHistory

#: So long may a job that was removed still be shown.
KEEP_SECONDS = 60.0
#: Lists that are kept; each has at most twice ``MAX_MODELS`` models.
MAX_LISTS = 16
#: An end is stored a little after its time, perhaps by a service whose clock is behind.
_LATE_US = 60_000_000

_Readers = tuple[str, frozenset[str] | None]


class KeptModels:
    """
    Lists of models by project and DAGs; safe for threads.

    A whole list costs a look at all jobs that ever ended, as the last good one may be years old.

    :param clock: seconds that never run backwards; for tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Readers, tuple[float, int, list[ModelHistory]]] = OrderedDict()

    def of(
        self,
        project: str,
        dags: Sequence[str] | None,
        now_us: int,
        read: Callable[[int], list[ModelHistory]],
    ) -> list[ModelHistory]:
        """
        Return the models, the one that was trained last first.

        :param read: returns the models of jobs that ended after a time in microseconds.
        """
        readers = project, None if dags is None else frozenset(dags)
        now = self._clock()
        with self._lock:
            kept = self._kept.get(readers)
        if kept and now < kept[0] + KEEP_SECONDS:
            _, read_us, models = kept
            return _merged(models, read(read_us - _LATE_US))
        found = read(0)  # without the lock: other projects need not wait for it
        with self._lock:
            self._kept[readers] = (now, now_us, found)
            self._kept.move_to_end(readers)
            while len(self._kept) > MAX_LISTS:
                self._kept.popitem(last=False)
        return found


def _merged(older: Sequence[ModelHistory], newer: Sequence[ModelHistory]) -> list[ModelHistory]:
    """Return the models of both lists; of one that is in both, the jobs that ended last."""
    found = {model.model: model for model in older}
    for model in newer:
        before = found.get(model.model, model)
        latest = _last(before.latest, model.latest) or model.latest
        good = _last(before.last_good, model.last_good)
        found[model.model] = ModelHistory(model=model.model, latest=latest, last_good=good)
    return sorted(found.values(), key=lambda model: -model.latest.end_time)


def _last(one: EndedJob | None, other: EndedJob | None) -> EndedJob | None:
    if one is None or other is None:
        return one or other
    return other if other.end_time >= one.end_time else one
