"""
Threads for slow actions: a pool per kind, so that hanging work blocks only its kind.

A pool has no queue. In each iteration the loop asks again for what it could not start, oldest job first.
Until then the job is not busy, so a cancel does not wait behind the work of others. Threads are daemons: one
that hangs does not keep the process alive.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

from training_service.model.work import AddTrial, PullImages, RemoveJob, StartReplicas, StopReplicas, Work

#: How many actions of each kind may run side by side; the engine itself processes a few at a time.
SLOTS: Mapping[type[Work], int] = {
    AddTrial: 4,  # the search needs a core
    PullImages: 64,
    StartReplicas: 32,
    StopReplicas: 32,
    RemoveJob: 16,
}
#: A quarter of the pulls: a registry that hangs leaves three quarters to the others, and sixteen pulls
#: saturate the line of one registry.
PULLS_OF_A_REGISTRY = 16
#: Containers of one job that are started or stopped side by side.
_SIDE_BY_SIDE = 32
#: How long a thread waits for more work.
_IDLE_SECONDS = 10.0

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Workers(Protocol):
    """The pools, as the loop needs them."""

    def start(self, work: Work, do: Callable[[], None], after: Callable[[], None]) -> bool:
        """
        Run ``do`` elsewhere, and ``after`` when its slot is free again.

        :return: ``False``: there is no slot for ``work`` now; ask again.
        """


class Pools:
    """A pool for each kind of work; safe for threads."""

    def __init__(
        self, slots: Mapping[type[Work], int] = SLOTS, pulls_of_a_registry: int = PULLS_OF_A_REGISTRY
    ) -> None:
        self._slots = slots
        self._pulls_of_a_registry = pulls_of_a_registry
        self._lock = threading.Lock()
        self._taken: Counter[type[Work]] = Counter()
        self._pulls: Counter[str] = Counter()
        self._threads = _Threads()

    def start(self, work: Work, do: Callable[[], None], after: Callable[[], None]) -> bool:
        """Run ``do`` and then ``after`` on a thread; ``False``: ``work`` has no slot now."""
        if not self._take(work):
            return False

        def run() -> None:
            try:
                do()
            finally:
                self._give_back(work)
                after()

        try:
            self._threads.run(run)
        except RuntimeError:
            # The machine has no more threads.
            self._give_back(work)
            return False
        return True

    def _take(self, work: Work) -> bool:
        hosts = _registries_of(work)
        with self._lock:
            if self._taken[type(work)] >= self._slots[type(work)]:
                return False
            if any(self._pulls[host] >= self._pulls_of_a_registry for host in hosts):
                return False
            self._taken[type(work)] += 1
            self._pulls.update(hosts)
        return True

    def _give_back(self, work: Work) -> None:
        with self._lock:
            self._taken[type(work)] -= 1
            self._pulls.subtract(_registries_of(work))
            self._pulls = +self._pulls


class _Threads:
    """
    Daemon threads that wait a while for more work.

    Who starts a thread waits until it runs, which on a loaded machine takes longer than most work of a job.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle = 0
        self._given: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def run(self, do: Callable[[], None]) -> None:
        """Run ``do`` on a thread. :raises RuntimeError: the machine has none left."""
        with self._lock:
            is_idle = self._idle > 0
            self._idle -= is_idle
        if is_idle:
            self._given.put(do)
        else:
            threading.Thread(target=self._work, args=(do,), name="work", daemon=True).start()

    def _work(self, do: Callable[[], None]) -> None:
        while True:
            do()
            with self._lock:
                self._idle += 1
            while True:
                try:
                    do = self._given.get(timeout=_IDLE_SECONDS)
                    break
                except Empty:
                    with self._lock:
                        # None is idle: work is on its way to each thread that waits.
                        if self._idle:
                            self._idle -= 1
                            return


def _registries_of(work: Work) -> set[str]:
    return {image.host for image in work.images} if isinstance(work, PullImages) else set()


def side_by_side(do: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """Call ``do`` for every item and return the results; raise the first error, but at the end."""
    work = list(items)
    if len(work) == 1:
        return [do(work[0])]
    futures = [Future[_Result]() for _ in work]
    left: SimpleQueue[tuple[Future[_Result], _Item]] = SimpleQueue()
    for pair in zip(futures, work, strict=True):
        left.put(pair)
    for _ in range(min(len(work), _SIDE_BY_SIDE)):
        threading.Thread(target=_work_off, args=(do, left), name="replica", daemon=True).start()
    for future in futures:
        future.exception()
    return [future.result() for future in futures]


def _work_off(do: Callable[[_Item], _Result], left: SimpleQueue[tuple[Future[_Result], _Item]]) -> None:
    while True:
        try:
            future, item = left.get_nowait()
        except Empty:
            return
        try:
            future.set_result(do(item))
        except BaseException as error:
            future.set_exception(error)
