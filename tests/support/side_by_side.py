"""Calls of several threads at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

SIDE_BY_SIDE = 6
T = TypeVar("T")


def at_once(do: Callable[[int], T]) -> list[T | Exception]:
    """Return what several threads get that call ``do`` at the same moment, each with its number."""
    barrier = Barrier(SIDE_BY_SIDE)

    def one(number: int) -> T | Exception:
        barrier.wait()
        try:
            return do(number)
        except Exception as error:
            return error

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return list(pool.map(one, range(SIDE_BY_SIDE)))
