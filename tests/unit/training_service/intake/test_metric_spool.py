"""
The folder that a container reports to.

Every file is read once, whatever the container does to it.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from container_engines.base import METRIC_FILE_NAME
from training_service.intake import metric_spool
from training_service.intake.metric_spool import MetricSpool


@pytest.fixture(autouse=True)
def in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A trainer has closed what it wrote at the next look.

    There are no leases, as no thread is told.
    """
    monkeypatch.setattr(metric_spool, "_SETTLE_SECONDS", 0.0)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[MetricSpool]:
    spool = MetricSpool(tmp_path / "job", 0)
    spool.turn()
    yield spool
    spool.close()


def report(spool: MetricSpool, text: str) -> None:
    """Write as the package does: over what is there."""
    (spool.mount / METRIC_FILE_NAME).write_text(text)


def test_each_report_is_read_once_in_its_order(spool: MetricSpool) -> None:
    found = []
    for number in range(3):
        report(spool, f"report {number}")
        spool.turn()
        found += spool.read()

    assert found == [b"report 0", b"report 1", b"report 2"]
    assert spool.read() == []


def test_a_trainer_that_is_quiet_keeps_its_file(spool: MetricSpool) -> None:
    before = (spool.mount / METRIC_FILE_NAME).stat().st_ino

    spool.turn()

    assert (spool.mount / METRIC_FILE_NAME).stat().st_ino == before
    assert (spool.read(), spool.is_waiting) == ([], False)


def test_what_was_read_stays_until_it_is_stored(spool: MetricSpool, tmp_path: Path) -> None:
    report(spool, "report")
    spool.turn()
    spool.read()
    spool.close()

    again = MetricSpool(tmp_path / "job", 0)
    assert b"".join(again.read()) == b"report"
    again.discard()
    again.close()

    third = MetricSpool(tmp_path / "job", 0)
    assert b"report" not in third.read()
    third.close()


def test_at_the_end_what_is_there_is_read_also_without_a_turn(spool: MetricSpool) -> None:
    report(spool, "last")

    assert spool.read(is_ended=True) == [b"last"]


def test_a_file_that_the_trainer_put_in_the_place_of_ours_counts(spool: MetricSpool) -> None:
    fresh = spool.mount / "fresh"
    fresh.write_text("its own")
    fresh.replace(spool.mount / METRIC_FILE_NAME)

    spool.turn()

    assert b"its own" in spool.read()


def test_a_file_that_the_trainer_removed_is_replaced(spool: MetricSpool) -> None:
    (spool.mount / METRIC_FILE_NAME).unlink()

    spool.turn()
    report(spool, "after")
    spool.turn()

    assert b"after" in spool.read()


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_file_is_removed_and_neither_followed_nor_waited_for(
    spool: MetricSpool, tmp_path: Path, kind: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    place = spool.mount / METRIC_FILE_NAME
    place.unlink()
    if kind == "link":
        place.symlink_to(secret)
    elif kind == "folder":
        place.mkdir()
        (place / "x").touch()
    else:
        os.mkfifo(place)

    spool.turn()

    assert b"secret" not in b"".join(spool.read(is_ended=True))
    assert not place.is_symlink()
    assert secret.read_text() == "secret"


def test_a_trainer_that_closes_no_file_takes_no_more_than_its_share(spool: MetricSpool) -> None:
    opened = []
    before = len(list(Path("/proc/self/fd").iterdir()))

    for number in range(3 * metric_spool.MOST_FILES):
        opened.append((spool.mount / METRIC_FILE_NAME).open("w"))
        opened[-1].write(str(number))
        opened[-1].flush()
        spool.turn()

    own = len(list(Path("/proc/self/fd").iterdir())) - before - len(opened)
    assert own < 2 * metric_spool.MOST_FILES  # other threads of the run have some, too
    for file in opened:
        file.close()
    assert spool.read(is_ended=True)[-1] == str(number).encode()


def test_of_a_huge_file_the_end_is_read(spool: MetricSpool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_spool, "MAX_FILE_BYTES", 4)
    report(spool, "a long report")
    spool.turn()

    assert spool.read() == [b"port"]


def test_any_user_of_the_image_may_report(spool: MetricSpool) -> None:
    assert spool.mount.stat().st_mode & 0o777 == 0o777
    assert (spool.mount / METRIC_FILE_NAME).stat().st_mode & 0o666 == 0o666


def test_a_file_that_stays_open_is_read_as_it_grows(
    spool: MetricSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_spool, "_SETTLE_SECONDS", 10**9)
    monkeypatch.setattr(metric_spool, "_PATIENCE_SECONDS", 0.0)
    with (spool.mount / METRIC_FILE_NAME).open("w") as file:
        file.write("one ")
        file.flush()
        spool.turn()
        first = spool.read()
        again = spool.read()
        file.write("two")
        file.flush()
        second = spool.read()

    assert (first, again, second) == ([b"one "], [], [b"one two"])
    assert spool.is_waiting


def test_very_many_files_of_an_earlier_process_are_read_in_parts(tmp_path: Path) -> None:
    folder = tmp_path / "job" / "spool"
    folder.mkdir(parents=True)
    for number in range(1, 1201):
        (folder / f"{number:09d}").write_text(str(number))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir()))

    # With as many descriptors as a process commonly has, and fewer than there are files.
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 600, limits[1]))
    try:
        spool = MetricSpool(tmp_path / "job", 0)
        found = []
        parts = 0
        while spool.is_waiting:
            found += spool.read(is_ended=True)
            parts += 1
        spool.discard()
        spool.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    assert found == [str(number).encode() for number in range(1, 1201)]
    assert parts == 3
    assert list(folder.iterdir()) == []
