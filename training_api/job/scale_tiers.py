"""
Scale tiers as data: which machines each tier has, and how many.

No page that is still served has the table. All sizes are recalled [unverified]; one second-hand source gives STANDARD_1 a
single parameter server instead of three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from training_api.dialects.ml_v1.resources import ScaleTier


@dataclass(frozen=True, slots=True, kw_only=True)
class TierShape:
    """The machine types of a tier's roles, by their names in ``MACHINE_TYPES``, and the counts of the roles."""

    master: str
    worker: str = ""
    workers: int = 0
    parameter_server: str = ""
    parameter_servers: int = 0


#: CUSTOM is not here: it reads ``masterType`` and its like. BASIC_TPU is not: TPUs are refused before anybody looks.
TIER_SHAPES: Mapping[ScaleTier, TierShape] = {
    ScaleTier.BASIC: TierShape(master="n1-standard-4"),
    ScaleTier.STANDARD_1: TierShape(
        master="n1-highcpu-8",
        worker="n1-highcpu-8",
        workers=4,
        parameter_server="n1-standard-4",
        parameter_servers=3,
    ),
    ScaleTier.PREMIUM_1: TierShape(
        master="n1-highcpu-16",
        worker="n1-highcpu-16",
        workers=19,
        parameter_server="n1-highmem-8",
        parameter_servers=11,
    ),
    ScaleTier.BASIC_GPU: TierShape(master="standard_gpu"),
}
