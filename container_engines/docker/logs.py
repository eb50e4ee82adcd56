"""
Reads the log of a container or Swarm task: both streams in order, with times.

docker-py's ``logs`` either mixes the streams or reads one of them; the engine's framing keeps both apart:
docs.docker.com/reference/api/engine, "ContainerAttach", stream format.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from weakref import WeakSet

import docker
import requests
import urllib3
from docker.errors import APIError

from container_engines.base import LogLine, LogStream
from container_engines.docker.client import raise_for_status
from container_engines.docker.stamps import Stamps

_HEADER = struct.Struct(">BxxxL")
_STREAMS = {0: LogStream.STDOUT, 1: LogStream.STDOUT, 2: LogStream.STDERR}
#: The engine's words, not the container's, e.g. that the machine of a task does not answer.
_ENGINE_ERROR = 3
#: A longer line without an end is yielded in parts, so that memory stays bounded.
_MAX_LINE_BYTES = 1 << 20
#: Timeout between two parts of an ended log. The engine may have to skip two files to find the first line.
_END_SECONDS = 30.0
#: A container may write nothing for hours. Its follower reconnects after this time, so that it does not wait
#: for ever on a dead connection.
_FOLLOW_SECONDS = 300.0
#: How many line times all streams together, and each stream, remember; 8 bytes each. A line whose time was
#: forgotten can be yielded twice; the log store drops the second one, because it has the same time.
_STAMPS_IN_ALL = 1 << 22
_MOST_STAMPS = 1 << 20
_LEAST_STAMPS = 1 << 12


def read_frames(
    client: docker.APIClient,
    source: str,
    since_ns: int,
    *,
    follow: bool,
    tail: int | None = None,
    stamps: Stamps | None = None,
    on_open: Callable[[requests.Response], None] = lambda _: None,
    quiet_seconds: float | None = None,
) -> Iterator[LogLine]:
    """
    Yield the lines of ``source`` from ``since_ns`` on, each once.

    :param source: ``containers/ID`` or ``tasks/ID``.
    :param follow: continue until the container ends (for a task: for ever); else read what is there.
    :param tail: at most this many of the last lines; ``None``: all of them.
    :param stamps: of this engine; default: Docker's.
    :param on_open: called with the response before it is read.
    :param quiet_seconds: the longest pause; default: 30 s, and 300 s for a follower, which then just ends.
    :raises docker.errors.APIError: the engine refused, e.g. there is no such container.
    :raises requests.Timeout: or ``urllib3``'s: the engine sent nothing for ``quiet_seconds``,
        and ``follow`` is off.
    """
    stamps = stamps or Stamps()
    since_ns = stamps.since(since_ns)
    timeout = quiet_seconds or (_FOLLOW_SECONDS if follow else _END_SECONDS)
    params: dict[str, int | str] = {
        "stdout": 1,
        "stderr": 1,
        "follow": int(follow),
        "timestamps": 1,
        "since": f"{since_ns // 10**9}.{since_ns % 10**9:09d}",
        "tail": "all" if tail is None else tail,
    }
    url = f"{client.base_url}/v{client.api_version}/{source}/logs"
    with client.get(url, params=params, stream=True, timeout=timeout) as response:
        raise_for_status(response)
        on_open(response)
        unended: dict[LogStream, LogLine] = {}
        repeats = {stream: _Repeats() for stream in LogStream}
        for stream, given in _frames(response.raw, may_be_quiet=follow):
            payload = stamps.exact(given)
            if payload and not repeats[stream].has(payload, stream, unended):
                yield from _lines(stream, payload, unended)
        yield from (replace(line, is_whole=False) for line in unended.values())


class _Repeats:
    """
    Detects what a follower gets twice from one stream.

    Seen with Docker 20.10 at 10 MB/s: when the engine starts a new log file, it sometimes sets the follower
    back to the beginning of that file. Times of one stream grow. An older time that was seen before is a
    repeat; an older time that was not comes from a clock that was set back.
    """

    _all: WeakSet[_Repeats] = WeakSet()

    def __init__(self) -> None:
        self._stamps = array("q", [-1])
        self._is_behind = False
        self._all.add(self)

    def has(self, payload: bytes, stream: LogStream, unended: dict[LogStream, LogLine]) -> bool:
        """
        Whether the frame is a repeat.

        When the stream was set back, its unfinished line is dropped, because it comes again.
        """
        stamp = _to_ns(payload.partition(b" ")[0].decode())
        if stamp > self._stamps[-1]:
            self._is_behind = False
            self._stamps.append(stamp)
            if len(self._stamps) > _LEAST_STAMPS:
                self._forget()
            return False
        if stamp == self._stamps[-1]:
            return self._is_behind  # a line of the same instant, or the next part of a long one
        place = bisect_left(self._stamps, stamp)
        if self._stamps[place] != stamp:
            return False
        if not self._is_behind:
            self._is_behind = True
            begun = unended.pop(stream, None)
            if begun and begun.timestamp_ns == self._stamps[-1]:
                self._stamps.pop()
        return True

    def _forget(self) -> None:
        share = min(max(_STAMPS_IN_ALL // len(self._all), _LEAST_STAMPS), _MOST_STAMPS)
        if len(self._stamps) > share:
            del self._stamps[: -(share // 2)]


def _frames(
    raw: urllib3.response.BaseHTTPResponse, *, may_be_quiet: bool = False
) -> Iterator[tuple[LogStream, bytes]]:
    buffer = bytearray()
    try:
        for chunk in raw.stream(1 << 16, decode_content=False):
            buffer += chunk
            while len(buffer) >= _HEADER.size:
                kind, size = _HEADER.unpack_from(buffer)
                end = _HEADER.size + size
                if len(buffer) < end:
                    break
                payload = bytes(buffer[_HEADER.size : end])
                if kind == _ENGINE_ERROR:
                    raise APIError("log", explanation=payload.decode(errors="replace").strip())
                yield _STREAMS[kind], payload
                del buffer[:end]
    except urllib3.exceptions.ReadTimeoutError:
        if not may_be_quiet:
            raise
    except urllib3.exceptions.ProtocolError:
        # The engine went away midway: the caller resumes from its last line.
        return


def _lines(stream: LogStream, payload: bytes, unended: dict[LogStream, LogLine]) -> Iterator[LogLine]:
    """
    Yield the whole lines that the frame completes.

    A frame is one line with its time. A long line comes in frames of 16 KiB, of which only the last
    has an end.
    """
    stamp, _, content = payload.partition(b" ")
    text = content.decode("utf-8", errors="replace")
    begun = unended.pop(stream, None)
    line = LogLine(
        timestamp_ns=begun.timestamp_ns if begun else _to_ns(stamp.decode()),
        stream=stream,
        text=(begun.text if begun else "") + text.rstrip("\r\n"),
    )
    if content.endswith(b"\n") or len(line.text) >= _MAX_LINE_BYTES:
        yield line
    else:
        unended[stream] = line


def _to_ns(stamp: str) -> int:
    """Return ``2026-01-31T12:00:00.123456789Z`` as nanoseconds since the epoch, exactly."""
    seconds, _, fraction = stamp.rstrip("Z").partition(".")
    return _whole_seconds(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9] or 0)


@lru_cache(maxsize=16)
def _whole_seconds(text: str) -> int:
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp())
