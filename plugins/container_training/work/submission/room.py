"""Whether a training service has room for one more job, by what it says of itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from training_api.fleet.wire import FleetResponse, Room
    from training_api.job.replica_spec import ReplicaSpec


_GIB = 1024**3


def why_no_room(
    replicas: Sequence[ReplicaSpec],
    fleet: FleetResponse,
    now: datetime,
    *,
    longest_wait: timedelta,
    is_scaled_down: bool = False,
) -> str:
    """
    Return why a job should not go to a service, as a clause for people; empty: it has room.

    :param replicas: all replicas of the job.
    :param fleet: what the service says of itself.
    :param now: when it said so; aware.
    :param longest_wait: how long the oldest queued job may have waited.
    :param is_scaled_down: a container that gets less than its machine type fits, too.
    """
    if fleet.capacity is None or fleet.largest is None:
        return "its engine does not answer"
    if fleet.hold:
        return f"it admits no job: {fleet.hold}"
    if reason := next(_too_large(replicas, fleet.largest, fleet.capacity, is_scaled_down), ""):
        return reason
    if fleet.oldest_queued_time is not None:
        waited = now - fleet.oldest_queued_time
        if waited > longest_wait:
            return (
                f"the oldest of {fleet.queue_length} queued jobs waits for {_minutes(waited)} minutes, "
                f"more than {_minutes(longest_wait)}"
            )
    return ""


def _too_large(
    replicas: Sequence[ReplicaSpec], largest: Room, capacity: Room, is_scaled_down: bool
) -> Iterator[str]:
    # A job starts whole or not at all, and GPUs are never promised twice.
    gpus = sum(replica.gpus for replica in replicas)
    if gpus > capacity.gpus:
        yield f"the job has {gpus} accelerators, the service {capacity.gpus}"
    most = max((replica.gpus for replica in replicas), default=0)
    if most > largest.gpus:
        yield f"a replica has {most} accelerators, the machine with most of them {largest.gpus}"
    if capacity.replicas and len(replicas) > capacity.replicas:
        yield f"the job has {len(replicas)} replicas, the service takes {capacity.replicas} containers"
    if is_scaled_down:
        return
    for machine in {replica.machine.name: replica.machine for replica in replicas}.values():
        if machine.cpus > largest.cpus or machine.memory_bytes > largest.memory_bytes:
            yield (
                f"{machine.name} has {machine.cpus} cores and {machine.memory_bytes / _GIB:.3g} GiB, the largest "
                f"container {largest.cpus:g} cores and {largest.memory_bytes / _GIB:.3g} GiB"
            )


def _minutes(duration: timedelta) -> str:
    return f"{duration.total_seconds() / 60:.3g}"
