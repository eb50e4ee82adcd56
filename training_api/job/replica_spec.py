"""What one replica of a job runs. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from training_api.job.accelerators import Accelerator
from training_api.job.cluster import ReplicaId
from training_api.job.image_ref import ImageRef
from training_api.job.machines import MachineType
from training_api.job.packages.python_package import PackageTask

#: Replicas of one job, all roles together. A bound of this service's own, against a count with a digit too
#: many.
MAX_REPLICAS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSpec:
    """
    What one replica runs.

    :param command: replaces the image's entry point; empty: the image's own.
    :param args: follow the entry point, those that the dialect adds included.
    :param installs: packages that it installs into the image and runs with ``args``; ``None``: none.
    :param gpus: accelerators of the replica, those of its machine type or those that the request attaches.
    """

    replica: ReplicaId
    image: ImageRef
    machine: MachineType
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    installs: PackageTask | None = None
    gpus: int = 0
    gpu: Accelerator | None = None
