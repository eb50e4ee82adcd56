from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_service.front_door.names import is_api_host
from training_service.front_door.refusals import busy, refusal_of

CENTRAL = "us-central1-aiplatform.googleapis.com"


def request(line: str) -> bytes:
    return f"{line}\r\nHost: whatever\r\n\r\n".encode()


@pytest.mark.parametrize(
    "line",
    [
        f"CONNECT {CENTRAL}:443 HTTP/1.1",
        "CONNECT aiplatform.googleapis.com:443 HTTP/1.0",
        f"CONNECT {CENTRAL.upper()}:443 HTTP/1.1",
    ],
)
def test_a_connect_to_vertex_ai_is_not_refused(line: str) -> None:
    assert refusal_of(request(line)) is None


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("CONNECT storage.googleapis.com:443 HTTP/1.1", HTTPStatus.FORBIDDEN, "'storage.googleapis.com:443'"),
        (f"CONNECT {CENTRAL}:80 HTTP/1.1", HTTPStatus.FORBIDDEN, f"'{CENTRAL}:80'"),
        (f"CONNECT {CENTRAL} HTTP/1.1", HTTPStatus.FORBIDDEN, f"got '{CENTRAL}'"),
        (f"CONNECT {CENTRAL}:0443 HTTP/1.1", HTTPStatus.FORBIDDEN, "connects to"),
        ("CONNECT 127.0.0.1:22 HTTP/1.1", HTTPStatus.FORBIDDEN, "no_grpc_proxy"),
        ("CONNECT [::1]:443 HTTP/1.1", HTTPStatus.FORBIDDEN, "REGION-aiplatform.googleapis.com:443"),
        (f"CONNECT user@{CENTRAL}:443 HTTP/1.1", HTTPStatus.FORBIDDEN, "nothing else"),
        ("CONNECT  HTTP/1.1", HTTPStatus.FORBIDDEN, "got ''"),
        ("GET http://example.com/ HTTP/1.1", HTTPStatus.METHOD_NOT_ALLOWED, "must be CONNECT, got 'GET'"),
        ("connect a:443 HTTP/1.1", HTTPStatus.METHOD_NOT_ALLOWED, "got 'connect'"),
        ("CONNECT a:443", HTTPStatus.BAD_REQUEST, "understands CONNECT"),
        ("CONNECT a:443 HTTP/2.0", HTTPStatus.BAD_REQUEST, "understands CONNECT"),
        ("", HTTPStatus.BAD_REQUEST, "local training service"),
    ],
)
def test_everything_else_is_refused_with_a_sentence(line: str, status: HTTPStatus, words: str) -> None:
    refusal = refusal_of(request(line))

    assert refusal is not None
    head, _, body = refusal.decode().partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status.value} {status.phrase}\r\n")
    assert f"Content-Length: {len(body)}" in head
    assert ("Allow: CONNECT" in head) == (status is HTTPStatus.METHOD_NOT_ALLOWED)
    assert words in body
    assert body.startswith("this is the way to the local training service")


_WORDS = st.one_of(
    st.binary(max_size=400),
    st.from_regex(rb"([a-z]{2}-[a-z]{1,4}[0-9]-)?aiplatform.googleapis.com.{0,4}:[0-9]{2,4}"),
)


@given(st.sampled_from([b"CONNECT", b"GET", b"\xff\n"]), _WORDS)
def test_no_bytes_make_an_answer_of_several_lines_or_open_another_host(method: bytes, target: bytes) -> None:
    refusal = refusal_of(method + b" " + target + b" HTTP/1.1\r\n\r\n")

    if refusal is None:
        host, port = target.decode().split(":")
        assert is_api_host(host.lower())
        assert port == "443"
        return
    head, _, body = refusal.partition(b"\r\n\r\n")
    assert body.count(b"\n") == 1
    assert all(part.isascii() for part in (head, body))


def test_one_connection_too_many_is_told_the_limit() -> None:
    assert busy(7).startswith(b"HTTP/1.1 503 ")
    assert b"7 connections" in busy(7)
