"""Whether the service's disks have enough space to start jobs, and to keep their logs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from training_api.job.machines import GIB

#: A floor is never more than this share of its disk, so that a small disk can be used, too.
FLOOR_SHARE = 0.05
#: The floor for logs is never more than this share of the floor for jobs.
_LOG_SHARE = 0.25
#: The volume that log entries are written to.
DATABASE = "database"


class DiskUsage(NamedTuple):
    """Bytes of a disk, as in ``shutil.disk_usage``."""

    total: int
    used: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """
    Free bytes below which the service does less; 0: no check.

    :param admission_bytes: no job is admitted; at most 5 % of the disk.
    :param log_bytes: no log is collected; at most a quarter of the disk's floor for jobs.
    """

    admission_bytes: int = 2 * GIB
    log_bytes: int = 500 * 2**20

    def admission_floor(self, disk_bytes: int) -> int:
        """Return the floor for jobs on a disk of this size."""
        return min(self.admission_bytes, int(disk_bytes * FLOOR_SHARE))

    def log_floor(self, disk_bytes: int) -> int:
        """Return the floor for logs on a disk of this size."""
        return min(self.log_bytes, int(disk_bytes * FLOOR_SHARE * _LOG_SHARE))


class DiskGuard:
    """
    Checks the disks on demand; safe for threads.

    :param volumes: folders by name. One that does not exist, or cannot be checked, counts as having space.
    :param usage: size and free bytes of the disk of a path.
    """

    def __init__(
        self,
        volumes: Mapping[str, Path],
        floors: Floors,
        usage: Callable[[Path], DiskUsage] = lambda path: DiskUsage(*shutil.disk_usage(path)),
    ) -> None:
        self._volumes = volumes
        self._floors = floors
        self._usage = usage

    def problem(self) -> str:
        """Return why no job is admitted, as a clause for people; empty: jobs are admitted."""
        for volume, disk in self._disks():
            floor = self._floors.admission_floor(disk.total)
            if disk.free < floor:
                return (
                    f"the disk of the {volume} has {disk.free / GIB:.2f} GiB free, and jobs start with "
                    f"{floor / GIB:.2f} GiB at least (TRAINING_DISK_FLOOR_BYTES)"
                )
        return ""

    def has_room_for_logs(self) -> bool:
        """Whether lines of jobs may be stored."""
        return all(
            disk.free >= self._floors.log_floor(disk.total)
            for volume, disk in self._disks()
            if volume == DATABASE
        )

    def _disks(self) -> Iterator[tuple[str, DiskUsage]]:
        for volume, path in self._volumes.items():
            try:
                yield volume, self._usage(path)
            except OSError:
                continue
