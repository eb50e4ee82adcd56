"""
A container's or a Swarm task's log from the engine: both streams in their order, each line with its stream and its time.

docker-py's ``logs`` either mixes the streams or reads one of them; the engine's own framing keeps both apart:
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

import docker
import requests
import urllib3
from docker.errors import APIError
from docker.types import LogConfig

from container_engines.base import LogLine, LogStream
from container_engines.docker.client import raise_for_status

_HEADER = struct.Struct(">BxxxL")
_STREAMS = {0: LogStream.STDOUT, 1: LogStream.STDOUT, 2: LogStream.STDERR}
#: Of each of the two files that the engine keeps of a container's output; the oldest part goes first.
LOG_MEGABYTES = 256
#: Not the container's words but the engine's own, e.g. that the machine of a task does not answer.
_ENGINE_ERROR = 3
#: A line without an end grows up to this and is then given out in parts, so that memory stays bounded.
_MAX_LINE_BYTES = 1 << 20
#: More lines than the engine keeps of a flood of short ones; 8 bytes each.
_REMEMBERED_STAMPS = 1 << 21


def log_files(megabytes: int = LOG_MEGABYTES) -> LogConfig:
    """
    Return how the engine keeps a container's output on its disk: in two files of so many megabytes.

    In its binary form: at 10 MB/s its JSON files set followers back, lose whole files for them, and take half a minute to read
    anew.
    """
    return LogConfig(type="local", config={"max-size": f"{megabytes}m", "max-file": "2", "compress": "false"})


def read_frames(
    client: docker.APIClient,
    source: str,
    since_ns: int,
    *,
    follow: bool,
    tail: int | None = None,
    on_open: Callable[[requests.Response], None] = lambda _: None,
) -> Iterator[LogLine]:
    """
    Yield the lines of ``source`` from ``since_ns`` on, each once.

    :param source: ``containers/ID`` or ``tasks/ID``.
    :param follow: go on until the container ends (for a task: for ever); else until what there is has been read.
    :param tail: only so many of the last lines; ``None``: all of them.
    :param on_open: called with the answer before it is read.
    :raises docker.errors.APIError: the engine refused, e.g. there is no such container.
    """
    params: dict[str, int | str] = {
        "stdout": 1,
        "stderr": 1,
        "follow": int(follow),
        "timestamps": 1,
        "since": f"{since_ns // 10**9}.{since_ns % 10**9:09d}",
        "tail": "all" if tail is None else tail,
    }
    url = f"{client.base_url}/v{client.api_version}/{source}/logs"
    with client.get(url, params=params, stream=True, timeout=None) as response:
        raise_for_status(response)
        on_open(response)
        unended: dict[LogStream, LogLine] = {}
        repeats = {stream: _Repeats() for stream in LogStream}
        for stream, payload in _frames(response.raw):
            if not repeats[stream].has(payload, stream, unended):
                yield from _lines(stream, payload, unended)
        yield from (replace(line, is_whole=False) for line in unended.values())


class _Repeats:
    """
    Finds what a follower gets twice from one stream.

    Seen with Docker 20.10 at 10 MB/s: when the engine has begun a new log file, the follower is at times set back to the
    beginning of that file. Times of one stream grow; an older one that was there before is a repeat, while an older one
    that was not comes from a clock that was set back.
    """

    def __init__(self) -> None:
        self._stamps = array("q", [-1])
        self._is_behind = False

    def has(self, payload: bytes, stream: LogStream, unended: dict[LogStream, LogLine]) -> bool:
        """Whether the frame is a repeat; forgets the begun line of a stream that was set back, as it comes again."""
        stamp = _to_ns(payload.partition(b" ")[0].decode())
        if stamp > self._stamps[-1]:
            self._is_behind = False
            self._stamps.append(stamp)
            if len(self._stamps) > _REMEMBERED_STAMPS:
                del self._stamps[: _REMEMBERED_STAMPS // 2]
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


def _frames(raw: urllib3.response.BaseHTTPResponse) -> Iterator[tuple[LogStream, bytes]]:
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
    except urllib3.exceptions.ProtocolError:
        # The engine went away in the middle: the caller reads on from its last line.
        return


def _lines(stream: LogStream, payload: bytes, unended: dict[LogStream, LogLine]) -> Iterator[LogLine]:
    """A frame is one line with its time; a long line comes in frames of 16 KiB of which only the last has an end."""
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
