"""The order in which the replicas take the training rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np


def batches(count: int, *, size: int, seed: int) -> Iterator[np.ndarray[Any, Any]]:
    """
    Yield the numbers of the rows of each batch of one pass over ``count`` rows.

    Rows that do not fill a batch are left out.

    :param size: rows of a batch, of all replicas together.
    :param seed: decides the order.
    """
    order = np.random.default_rng(seed).permutation(count)
    size = min(size, count)
    for start in range(0, count - size + 1, size):
        yield order[start : start + size]
