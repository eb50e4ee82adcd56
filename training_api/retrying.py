"""Which errors may pass by themselves, and how long to wait before asking again."""

from __future__ import annotations

import random

from training_api.errors import (
    DiskFull,
    EditConflict,
    EngineBusy,
    EngineError,
    EngineUnavailable,
    PushFailed,
    RegistryMirrorFailed,
    RegistryUnavailable,
    ServiceUnavailable,
    Throttled,
    TrainingError,
    TransportError,
)

#: The same request to the training service may work later.
TRANSIENT: tuple[type[TrainingError], ...] = (TransportError, Throttled, ServiceUnavailable)
#: The engine, or the registry that it asks, may do the same later; other errors of an engine are final.
ENGINE_MAY_DO_LATER: tuple[type[EngineError] | type[RegistryUnavailable], ...] = (
    EngineUnavailable,
    EngineBusy,
    RegistryUnavailable,
)
#: A later attempt of the task may succeed: engines come back, disks are cleaned, policies change.
_MAY_PASS = (*TRANSIENT, EditConflict, *ENGINE_MAY_DO_LATER, DiskFull, PushFailed, RegistryMirrorFailed)
MAX_BACKOFF_SECONDS = 10.0
#: Draws the jitter of a pause, from 0 up to 1: it keeps those who collided from colliding again. It has its
#: own generator, so that the numbers of a program that seeds `random` stay reproducible.
draw_jitter = random.Random().random  # noqa: S311 - not for secrets


def is_worth_a_retry(error: TrainingError) -> bool:
    """Whether a later attempt of the task may succeed; other errors need a person's fix."""
    return isinstance(error, _MAY_PASS)


def backoff_seconds(failures: int, first_seconds: float, error: Exception, jitter: float) -> float:
    """
    Return how long to wait after the ``failures``-th failure in a row.

    Pure. Doubles from ``first_seconds`` up to 10 s, spread over the upper half so that many waiters do not
    come back at once. A Retry-After that is longer wins: the service knows better.

    :param failures: 1 and up.
    :param jitter: random, from 0 to 1: see `draw_jitter`.
    """
    ceiling = min(first_seconds * 2.0 ** min(failures - 1, 16), MAX_BACKOFF_SECONDS)
    seconds = ceiling * (0.5 + jitter / 2)
    asked = error.retry_after_seconds if isinstance(error, Throttled) else None
    return max(seconds, asked or 0.0)
