"""The engine's log framing, byte by byte."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from weakref import WeakSet

import docker
import pytest
import urllib3

from container_engines.base import LogLine, LogStream
from container_engines.docker import logs
from container_engines.docker.errors import engine_errors
from container_engines.docker.logs import _frames, _lines, _Repeats, _to_ns, read_frames
from tests.support.speed import drawn_out
from training_api.errors import EngineUnavailable

STAMP = b"2026-01-01T00:00:00.123456789Z"


def frame(stream: int, payload: bytes) -> bytes:
    return struct.pack(">BxxxL", stream, len(payload)) + payload


class Raw:
    """Gives out bytes in chunks of a chosen size, as a socket would."""

    def __init__(self, content: bytes, size: int, broken: bool = False) -> None:
        self.content, self.size, self.broken = content, size, broken

    def stream(self, _amount: int, decode_content: bool) -> Iterator[bytes]:
        assert decode_content is False
        for start in range(0, len(self.content), self.size):
            yield self.content[start : start + self.size]
        if self.broken:
            raise urllib3.exceptions.ProtocolError("gone")


@pytest.fixture
def hanging_engine() -> Iterator[docker.APIClient]:
    """A client of an engine that begins an answer, and never goes on with it."""
    done = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            content = frame(1, STAMP + b" first\n")
            self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
            done.wait()

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
    client = docker.APIClient(base_url=f"http://127.0.0.1:{server.server_port}", version="1.41")
    yield client
    client.close()
    done.set()
    server.shutdown()
    server.server_close()


def test_reading_what_there_is_gives_up_when_nothing_comes(hanging_engine: docker.APIClient) -> None:
    lines = read_frames(hanging_engine, "containers/x", 0, follow=False, quiet_seconds=drawn_out(0.5))

    assert next(lines).text == "first"
    with pytest.raises(EngineUnavailable), engine_errors("read a log"):
        next(lines)


def test_a_follower_to_which_nothing_comes_for_long_just_ends(hanging_engine: docker.APIClient) -> None:
    lines = read_frames(hanging_engine, "containers/x", 0, follow=True, quiet_seconds=drawn_out(0.5))

    assert [line.text for line in lines] == ["first"]


def read(raw: Raw) -> list[LogLine]:
    unended: dict[LogStream, LogLine] = {}
    lines = [line for stream, payload in _frames(raw) for line in _lines(stream, payload, unended)]  # type: ignore[arg-type]
    return [*lines, *unended.values()]


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_lines_are_read_whatever_the_chunks(size: int) -> None:
    content = (
        frame(1, STAMP + b" hello\n")
        + frame(2, STAMP + b" \xf0\x9f\x98\x80 error\r\n")
        + frame(1, STAMP + b" \n")
    )

    lines = read(Raw(content, size))

    assert [(line.stream, line.text) for line in lines] == [
        (LogStream.STDOUT, "hello"),
        (LogStream.STDERR, "\U0001f600 error"),
        (LogStream.STDOUT, ""),
    ]


def test_long_line_in_parts_becomes_one_line_with_its_first_time() -> None:
    later = b"2026-01-01T00:00:09.000000000Z"
    content = frame(1, STAMP + b" begin-") + frame(2, STAMP + b" other\n") + frame(1, later + b" end\n")

    lines = read(Raw(content, 16))

    assert [line.text for line in lines] == ["other", "begin-end"]
    assert lines[1].timestamp_ns == _to_ns(STAMP.decode())


def test_last_line_without_an_end_is_not_lost() -> None:
    assert [line.text for line in read(Raw(frame(1, STAMP + b" no newline"), 8))] == ["no newline"]


def test_broken_connection_ends_the_reading_after_whole_frames() -> None:
    whole = frame(1, STAMP + b" whole\n")

    lines = read(Raw(whole + frame(1, STAMP + b" half")[:20], 8, broken=True))

    assert [line.text for line in lines] == ["whole"]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert [line.text for line in read(Raw(frame(1, STAMP + b" a\xffb\n"), 8))] == ["a\ufffdb"]


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("2026-01-01T00:00:00.123456789Z", 1_767_225_600_123_456_789),
    ],
)
def test_timestamps_are_exact(stamp: str, expected: int) -> None:
    assert _to_ns(stamp) == expected


def stamp(second: int) -> bytes:
    return f"2026-01-01T00:00:{second:02d}Z".encode()


def lines_of(payloads: list[bytes]) -> list[str]:
    repeats = _Repeats()
    unended: dict[LogStream, LogLine] = {}
    found = [
        line
        for payload in payloads
        if not repeats.has(payload, LogStream.STDOUT, unended)
        for line in _lines(LogStream.STDOUT, payload, unended)
    ]
    return [line.text for line in found]


def test_follower_that_is_set_back_gives_no_line_twice() -> None:
    lines = [stamp(second) + f" {second}\n".encode() for second in range(10)]

    assert lines_of(lines[:7] + lines[3:] + lines[8:]) == [str(second) for second in range(10)]


def test_follower_that_is_set_back_within_a_long_line_gives_it_whole() -> None:
    before, first, second = stamp(1) + b" a\n", stamp(2) + b" begin-", stamp(2) + b" end\n"

    assert lines_of([before, first, before, first, second, stamp(3) + b" b\n"]) == ["a", "begin-end", "b"]


def test_lines_of_one_instant_are_no_repeats() -> None:
    assert lines_of([stamp(1) + b" a\n", stamp(1) + b" b\n", stamp(1) + b" c\n"]) == ["a", "b", "c"]


def test_streams_share_what_they_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_STAMPS_IN_ALL", 1 << 14)
    monkeypatch.setattr(logs, "_LEAST_STAMPS", 16)
    monkeypatch.setattr(_Repeats, "_all", WeakSet())
    streams = [_Repeats() for _ in range(1000)]
    stamps = [
        f"1970-01-01T00:00:{place // 1000:02d}.{place % 1000:03d}Z x\n".encode() for place in range(1, 60)
    ]

    for repeats in streams:
        for payload in stamps:
            assert not repeats.has(payload, LogStream.STDOUT, {})

    assert sum(len(repeats._stamps) for repeats in streams) <= 1 << 14
    assert streams[0].has(stamps[-2], LogStream.STDOUT, {})  # the newest are remembered


def test_clock_that_was_set_back_hides_no_line() -> None:
    payloads = [stamp(10) + b" a\n", stamp(20) + b" b\n", stamp(11) + b" c\n", stamp(12) + b" d\n"]

    assert lines_of(payloads) == ["a", "b", "c", "d"]
