"""
Scale tiers as data: which machines each tier has, and how many.

No page that is still served has the table. All sizes are recalled [unverified]; one second-hand source gives
STANDARD_1 a single parameter server instead of three.
"""

from __future__ import annotations

from collections.abc import Mapping

from training_api.dialects.ml_v1.resources import ScaleTier
from training_api.job.cluster import ReplicaRole

#: Tier -> role -> machine type, by its name in ``MACHINE_TYPES``, and count. CUSTOM is not here: it reads
#: ``masterType`` and its like. BASIC_TPU is not: TPUs are refused before anything reads the table.
TIER_SHAPES: Mapping[ScaleTier, Mapping[ReplicaRole, tuple[str, int]]] = {
    ScaleTier.BASIC: {ReplicaRole.MASTER: ("n1-standard-4", 1)},
    ScaleTier.STANDARD_1: {
        ReplicaRole.MASTER: ("n1-highcpu-8", 1),
        ReplicaRole.WORKER: ("n1-highcpu-8", 4),
        ReplicaRole.PARAMETER_SERVER: ("n1-standard-4", 3),
    },
    ScaleTier.PREMIUM_1: {
        ReplicaRole.MASTER: ("n1-highcpu-16", 1),
        ReplicaRole.WORKER: ("n1-highcpu-16", 19),
        ReplicaRole.PARAMETER_SERVER: ("n1-highmem-8", 11),
    },
    ScaleTier.BASIC_GPU: {ReplicaRole.MASTER: ("standard_gpu", 1)},
}
