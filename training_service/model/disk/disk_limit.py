"""How much disk a job may take, and what it is told when it takes more. Pure."""

from __future__ import annotations

from container_engines.disk_use import DiskUse
from training_api.causes import Cause
from training_api.job.cluster import ReplicaId
from training_api.job.machines import GIB
from training_service.model.reasons import Reason

#: Of one container's root, and of the objects below one job directory. The bytes are the default boot disk of
#: a machine of AI Platform Training [discovery: DiskConfig.bootDiskSizeGb].
LIMIT = DiskUse(bytes=100 * GIB, files=2_000_000)
#: Of the folder of one job's metrics. A report has some hundred bytes, and goes when it is stored.
METRICS_LIMIT = DiskUse(bytes=256 * 2**20, files=100_000)
#: What raises ``LIMIT``.
_SETTINGS = " (TRAINING_DISK_LIMIT_BYTES, TRAINING_DISK_LIMIT_FILES)"


def over_limit(
    replica: ReplicaId, name: str, where: str, use: DiskUse | None, most: DiskUse
) -> Reason | None:
    """
    Return why a job fails; ``None``: it does not.

    :param name: of the replica, in the words of the job's dialect.
    :param where: what the replica has written to.
    :param use: ``None``: unknown.
    """
    if use is None or not use.exceeds(most):
        return None
    files = "" if use.files is None else f" in {use.files:,} files"
    bounds = [f"{most.bytes:,} bytes"] if most.bytes else []
    bounds += [f"{most.files:,} files"] if most.files else []
    message = (
        f"The replica {name} has written at least {use.bytes:,} bytes{files} to {where}; allowed are "
        f"{' and '.join(bounds)}{'' if most == METRICS_LIMIT else _SETTINGS}."
    )
    return Reason(cause=Cause.DISK, message=message, replica=str(replica))


def hidden(replica: ReplicaId, name: str, where: str) -> Reason:
    """Return why a job fails that hides from the service what it writes."""
    message = f"The replica {name} has made a folder that the service cannot read in {where}."
    return Reason(cause=Cause.DISK, message=message, replica=str(replica))
