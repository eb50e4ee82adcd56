"""
A container's log from the engine: both streams in their order, each line with its stream and its time.

docker-py's ``logs`` either mixes the streams or reads one of them; the engine's own framing keeps both apart:
docs.docker.com/reference/api/engine, "ContainerAttach", stream format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import docker
import requests
import urllib3
from docker.errors import create_api_error_from_http_exception

from training_service.engine.base import LogLine, LogStream

_HEADER = struct.Struct(">BxxxL")
_STREAMS = {0: LogStream.STDOUT, 1: LogStream.STDOUT, 2: LogStream.STDERR}
#: A line without an end grows up to this and is then given out in parts, so that memory stays bounded.
_MAX_LINE_BYTES = 1 << 20


def read_frames(client: docker.APIClient, container_id: str, since_ns: int) -> Iterator[LogLine]:
    """
    Yield the lines of ``container_id`` from ``since_ns`` on, following until it ends.

    :raises docker.errors.APIError: the engine refused, e.g. there is no such container.
    """
    params: dict[str, int | str] = {
        "stdout": 1,
        "stderr": 1,
        "follow": 1,
        "timestamps": 1,
        "since": f"{since_ns // 10**9}.{since_ns % 10**9:09d}",
    }
    url = f"{client.base_url}/v{client.api_version}/containers/{container_id}/logs"
    with client.get(url, params=params, stream=True, timeout=None) as response:
        try:
            response.raise_for_status()
        except requests.HTTPError as error:
            create_api_error_from_http_exception(error)
        unended: dict[LogStream, LogLine] = {}
        for stream, payload in _frames(response.raw):
            yield from _lines(stream, payload, unended)
        yield from (replace(line, is_whole=False) for line in unended.values())


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
                yield _STREAMS[kind], bytes(buffer[_HEADER.size : end])
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
    whole = int(datetime.fromisoformat(f"{seconds}+00:00").timestamp())
    return whole * 10**9 + int(fraction.ljust(9, "0")[:9] or 0)
