"""Times of engines that give nanoseconds, and of those that give seconds."""

from __future__ import annotations

from container_engines.docker.stamps import OrdinalStamps, Stamps

_SECOND = 1_767_225_600 * 10**9  # 2026-01-01T00:00:00Z


def read(lines: list[bytes], since_ns: int = 0) -> list[bytes]:
    stamps = OrdinalStamps()
    stamps.since(since_ns)
    return [stamps.exact(line) for line in lines]


def test_exact_times_stay_as_they_are() -> None:
    line = b"2026-01-01T00:00:00.123456789Z a line"

    assert Stamps().exact(line) is line
    assert Stamps().since(_SECOND + 7) == _SECOND + 7


def test_the_lines_of_a_second_are_numbered() -> None:
    lines = [b"2026-01-01T00:00:00Z a b", b"2026-01-01T00:00:00Z c", b"2026-01-01T00:00:01Z "]

    assert read(lines) == [
        b"2026-01-01T00:00:00.000000000Z a b",
        b"2026-01-01T00:00:00.000000001Z c",
        b"2026-01-01T00:00:01.000000000Z ",
    ]


def test_a_later_reading_begins_with_the_second_and_finds_the_same_times() -> None:
    lines = [b"2026-01-01T00:00:00Z %d" % number for number in range(3)]

    assert OrdinalStamps().since(_SECOND + 2) == _SECOND
    assert read(lines, _SECOND + 1) == [b"", *read(lines)[1:]]


def test_the_time_zone_of_the_engine_does_not_matter() -> None:
    lines = [b"2026-01-01T01:30:00+01:30 east", b"2025-12-31T23:00:00.5-01:00 west"]

    assert read(lines) == [b"2026-01-01T00:00:00.000000000Z east", b"2026-01-01T00:00:00.500000000Z west"]


def test_a_newer_version_with_nanoseconds_keeps_them() -> None:
    line = b"2026-01-01T00:00:00.123456789Z a line"

    assert read([line, line]) == [line, line]
