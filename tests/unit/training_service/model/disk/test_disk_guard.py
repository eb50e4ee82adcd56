"""When disks are too full to start jobs, or to keep their logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from training_api.job.machines import GIB
from training_service.model.disk.disk_guard import DiskGuard, DiskUsage, Floors

MIB = 2**20
VOLUMES = {"database": Path("/database"), "engine": Path("/engine"), "metrics": Path("/absent")}


def make_guard(free: int, *, of_engine: int = 500 * GIB, total: int = 1000 * GIB, **floors: int) -> DiskGuard:
    def usage(path: Path) -> DiskUsage:
        if path.name == "absent":
            raise FileNotFoundError(path)
        left = free if path.name == "database" else of_engine
        return DiskUsage(total, total - left, left)

    return DiskGuard(VOLUMES, Floors(**floors), usage)


@pytest.mark.parametrize(
    ("free", "admits", "keeps_logs"),
    [
        (2 * GIB, True, True),
        (2 * GIB - 1, False, True),
        (500 * MIB, False, True),
        (500 * MIB - 1, False, False),
        (0, False, False),
    ],
)
def test_a_service_does_less_the_fuller_the_disk_is(free: int, admits: bool, keeps_logs: bool) -> None:
    guard = make_guard(free)

    assert (guard.problem() == "", guard.has_room_for_logs()) == (admits, keeps_logs)


def test_the_reason_names_the_disk_the_rule_and_the_setting() -> None:
    assert make_guard(GIB).problem() == (
        "the disk of the database has 1.00 GiB free, and jobs start with 2.00 GiB at least "
        "(TRAINING_DISK_FLOOR_BYTES)"
    )


def test_the_disk_of_the_engine_holds_jobs_and_not_logs() -> None:
    guard = make_guard(10 * GIB, of_engine=0)

    assert guard.problem().startswith("the disk of the engine has 0.00 GiB free")
    assert guard.has_room_for_logs()


def test_a_small_disk_has_smaller_floors() -> None:
    assert make_guard(GIB, total=10 * GIB).problem() == ""
    assert make_guard(500 * MIB, total=10 * GIB).problem() != ""
    assert make_guard(130 * MIB, total=10 * GIB).has_room_for_logs()
    assert not make_guard(120 * MIB, total=10 * GIB).has_room_for_logs()


def test_a_floor_of_0_is_none() -> None:
    guard = make_guard(0, of_engine=0, admission_bytes=0, log_bytes=0)

    assert guard.problem() == ""
    assert guard.has_room_for_logs()


def test_the_real_disk_is_looked_at(tmp_path: Path) -> None:
    assert DiskGuard({"database": tmp_path}, Floors(admission_bytes=0, log_bytes=0)).problem() == ""
    assert DiskGuard({"database": tmp_path / "absent"}, Floors()).problem() == ""
