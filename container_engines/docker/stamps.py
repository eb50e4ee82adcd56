"""
The times of the frames of a container's log.

Not safe for threads: each read of a log makes its own object.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

_NS = 10**9
#: As long as ``2026-01-31T12:00:00``.
_WHOLE_SECONDS = 19


class Stamps:
    """Times as the engine gives them: to the nanosecond, in UTC."""

    def since(self, since_ns: int) -> int:
        """Return from when to read, in nanoseconds, so that nothing since ``since_ns`` is left out."""
        return since_ns

    def exact(self, payload: bytes) -> bytes:
        """
        Return the next frame, ``2026-01-31T12:00:00.123456789Z LINE``.

        Empty: it is older than what ``since`` asked for.
        """
        return payload


class OrdinalStamps(Stamps):
    """
    Times of an engine that gives whole seconds.

    Each frame is a nanosecond later than the one before it in the same second, so that all times differ and
    their order is kept. Every read finds the same times, because it begins with the first frame of a second.
    """

    def __init__(self) -> None:
        self._second = ""
        self._next = 0
        #: Stamps of this form sort as their times do.
        self._asked = b""

    def since(self, since_ns: int) -> int:
        self._asked = _in_text(since_ns)
        return since_ns - since_ns % _NS

    def exact(self, payload: bytes) -> bytes:
        stamp, line = self._stamp_and_line(payload)
        return stamp + b" " + line if stamp >= self._asked else b""

    def _stamp_and_line(self, payload: bytes) -> tuple[bytes, bytes]:
        stamp, _, content = payload.partition(b" ")
        second, zone = stamp[:_WHOLE_SECONDS].decode(), stamp[_WHOLE_SECONDS:].decode()
        if zone.startswith("."):  # a newer version gives nanoseconds
            digits = zone[1:].rstrip("Z").partition("+")[0].partition("-")[0]
            return _text(second, zone[1 + len(digits) :], digits.ljust(9, "0")), content
        self._next = self._next + 1 if second == self._second else 0
        self._second = second
        return _text(second, zone, f"{self._next:09d}"), content


def _text(second: str, zone: str, fraction: str) -> bytes:
    return f"{_in_utc(second, zone)}.{fraction}Z".encode()


def _in_text(since_ns: int) -> bytes:
    moment = datetime.fromtimestamp(since_ns // _NS, UTC).isoformat()
    return f"{moment[:_WHOLE_SECONDS]}.{since_ns % _NS:09d}Z".encode()


@lru_cache(maxsize=16)
def _in_utc(second: str, zone: str) -> str:
    moment = datetime.fromisoformat(second + zone.replace("Z", "+00:00"))
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
