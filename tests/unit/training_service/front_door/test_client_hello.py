from __future__ import annotations

import ssl

import pytest

from training_service.front_door.certificates import ensure_certificates
from training_service.front_door.client_hello import ClientHello, peeking_context


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    files = ensure_certificates(tmp_path_factory.mktemp("tls"))
    return peeking_context(files.certificate, files.key)


def first_words(protocols: list[str], most: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED) -> bytes:
    """Return what a client of these protocols says first."""
    client_context = ssl.create_default_context()
    client_context.maximum_version = most
    if protocols:
        client_context.set_alpn_protocols(protocols)
    said = ssl.MemoryBIO()
    client = client_context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="aiplatform.googleapis.com")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return said.read()


@pytest.mark.parametrize("most", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("protocols", "wants_grpc"),
    [
        (["h2"], True),
        (["grpc-exp", "h2"], True),
        (["h2", "http/1.1"], False),
        (["http/1.1"], False),
        (["x"], False),
        ([], False),
    ],
)
def test_who_speaks_http_2_alone_wants_grpc(
    protocols: list[str], wants_grpc: bool, most: ssl.TLSVersion, context: ssl.SSLContext
) -> None:
    hello = ClientHello(context)

    assert hello.feed(first_words(protocols, most))

    assert hello.wants_grpc == wants_grpc


def test_words_may_come_byte_by_byte(context: ssl.SSLContext) -> None:
    said, hello = first_words(["h2"]), ClientHello(context)

    enough = [hello.feed(said[place : place + 1]) for place in range(len(said))]

    assert enough == [False] * (len(said) - 1) + [True]
    assert hello.wants_grpc


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\0" * 600])
def test_what_is_not_tls_is_refused(said: bytes, context: ssl.SSLContext) -> None:
    with pytest.raises(ssl.SSLError):
        ClientHello(context).feed(said)
