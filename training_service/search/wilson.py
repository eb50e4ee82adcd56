"""How sure a share is that was counted in few tries."""

from __future__ import annotations

import math

#: The normal distribution's 97.5 % point: an interval of 95 %.
_Z = 1.959963984540054


def wilson_interval(hits: int, tries: int) -> tuple[float, float]:
    """
    Wilson score interval (95 %) of a proportion: ``hits`` in ``tries``.

    0 <= hits <= tries; 0 to 1 without tries.

    Pure. Source: Wilson, Probable Inference, the Law of Succession, and Statistical Inference (1927).
    """
    if tries == 0:
        return 0.0, 1.0
    share, z2 = hits / tries, _Z**2
    centre = (share + z2 / (2 * tries)) / (1 + z2 / tries)
    half = _Z / (1 + z2 / tries) * math.sqrt(share * (1 - share) / tries + z2 / (4 * tries**2))
    return 0.0 if hits == 0 else centre - half, 1.0 if hits == tries else centre + half
