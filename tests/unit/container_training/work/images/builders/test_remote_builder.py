"""Where a remote builder is, and what is wrong with what a connection says of it."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from container_training.work.images.builders.remote_builder import RemoteBuilder
from tests.support.certificates import write_certificates
from training_api.errors import EngineUnavailable, InvalidRequest


@contextmanager
def serve_once(folder: Path) -> Iterator[int]:
    """Answer one client that has the certificate; yield the port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    context.set_alpn_protocols(["h2"])
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                try:
                    with context.wrap_socket(connection, server_side=True) as secure:
                        secure.sendall(secure.recv(1))
                except OSError:
                    pass  # the other side says why

        thread = threading.Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def make_certificates(folder: Path) -> Path:
    folder.mkdir()
    write_certificates(folder, "127.0.0.1")
    return folder


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "extra.builder_url: must be given without builder_name, or builder_name without it"),
        ({"url": "tcp://a:1", "name": "b"}, "extra.builder_url: must be given without builder_name"),
        ({"name": "--push"}, "extra.builder_name: must be the name of a builder of buildx, got '--push'"),
        ({"url": "https://a:1"}, "extra.builder_url: must be tcp://HOST:PORT or unix://PATH"),
        ({"url": "tcp://builder"}, "extra.builder_url: must be tcp://HOST:PORT or unix://PATH"),
        ({"url": "tcp://builder:port"}, "extra.builder_url: must be tcp://HOST:PORT or unix://PATH"),
        ({"url": "unix://"}, "extra.builder_url: must be tcp://HOST:PORT or unix://PATH"),
        ({"url": "tcp://builder:1234"}, "extra.builder_cert_path: must be given for 'tcp://builder:1234'"),
        (
            {"url": "tcp://builder:1234", "cert_path": "/nowhere"},
            "extra.builder_cert_path: must be a folder with ca.pem, cert.pem, key.pem, got '/nowhere'",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_extra(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        RemoteBuilder(**given)

    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("url", ["tcp://127.0.0.1:1234", "unix:///run/buildkit/buildkitd.sock"])
def test_on_this_machine_no_certificate_is_needed(url: str) -> None:
    assert RemoteBuilder(url=url).certificates == ()


def test_a_builder_that_trusts_the_certificate_answers(tmp_path: Path) -> None:
    folder = make_certificates(tmp_path / "certificates")

    with serve_once(folder) as port:
        RemoteBuilder(url=f"tcp://127.0.0.1:{port}", cert_path=str(folder)).check_answers()


def test_a_builder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        EngineUnavailable, match=r"no builder answers at unix://.*No such file.*; start buildkitd"
    ):
        RemoteBuilder(url=f"unix://{tmp_path}/no.sock").check_answers()


def test_a_builder_with_another_authority_is_not_trusted(tmp_path: Path) -> None:
    builders, own = make_certificates(tmp_path / "builder"), make_certificates(tmp_path / "own")

    with serve_once(builders) as port, pytest.raises(EngineUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        RemoteBuilder(url=f"tcp://127.0.0.1:{port}", cert_path=str(own)).check_answers()


def test_a_builder_that_does_not_trust_the_certificate_does_not_answer(tmp_path: Path) -> None:
    builders, own = make_certificates(tmp_path / "builder"), make_certificates(tmp_path / "own")
    (own / "ca.pem").write_bytes((builders / "ca.pem").read_bytes())

    # What it says of that may be lost with the connection, which it closes at once.
    with (
        serve_once(builders) as port,
        pytest.raises(EngineUnavailable, match=r"no builder answers .*builder_cert_path"),
    ):
        RemoteBuilder(url=f"tcp://127.0.0.1:{port}", cert_path=str(own)).check_answers()
