"""A property that is computed once, without the lock that Python's own has before 3.12."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

_T = TypeVar("_T")


class cached_property(Generic[_T]):  # noqa: N801  # as functools.cached_property, in whose place it stands
    """
    ``functools.cached_property`` as it is from Python 3.12 on.

    The older one computes under a lock that all instances of the class share. A process that is forked
    meanwhile has the lock without the thread that would release it, and waits for ever when it reads the
    property: as each task did of a worker that the scheduler forked while a listener's thread read a
    connection.

    Threads may compute the value side by side; the last one stays.
    """

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> cached_property[_T]: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> _T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> cached_property[_T] | _T:
        if instance is None:
            return self
        # From now on the instance's own attribute is found first.
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
