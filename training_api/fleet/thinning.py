"""Long series, with fewer points and the same picture. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def kept_places(values: Sequence[float | None], most: int) -> list[int]:
    """
    Return which of ``values`` to draw so that no peak is lost.

    Of each section the least and the largest.

    Pure. At most ``most`` places, ascending, the first and the last among them.
    """
    if len(values) <= most:
        return list(range(len(values)))
    buckets = max((most - 2) // 2, 1)
    kept = {0, len(values) - 1}
    for bucket in range(buckets):
        start, end = bucket * len(values) // buckets, (bucket + 1) * len(values) // buckets
        known = [(value, place) for place in range(start, end) if (value := values[place]) is not None]
        if known:
            kept.update({min(known)[1], max(known)[1]})
    return sorted(kept)
