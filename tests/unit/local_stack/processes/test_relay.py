import argparse
import socket
import subprocess
import sys
import threading

import pytest

from local_stack.processes.relay import Address
from tests.support.ports import reserve_port
from tests.support.speed import scaled


def test_an_address_is_a_host_and_a_port() -> None:
    assert Address.parse("172.17.0.1:9023") == Address("172.17.0.1", 9023)


@pytest.mark.parametrize("text", ["", "9023", ":9023", "host:", "host:port"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="must be HOST:PORT"):
        Address.parse(text)


def test_bytes_and_the_end_of_each_direction_are_relayed() -> None:
    payload = bytes(range(256)) * 4000
    port = reserve_port()
    with socket.create_server(("127.0.0.1", 0)) as far:
        command = [sys.executable, "-m", "local_stack.processes.relay"]
        addresses = [f"--listen=127.0.0.1:{port}", f"--to=127.0.0.1:{far.getsockname()[1]}"]
        with subprocess.Popen([*command, *addresses], stdout=subprocess.PIPE, text=True) as relay:
            try:
                assert relay.stdout is not None
                assert relay.stdout.readline().startswith("relaying")
                server = threading.Thread(target=_answer_with_the_reverse, args=(far,))
                server.start()

                with socket.create_connection(("127.0.0.1", port), timeout=scaled(10)) as near:
                    near.sendall(payload)
                    near.shutdown(socket.SHUT_WR)
                    answer = _read_all(near)

                server.join(timeout=scaled(10))
                assert answer == payload[::-1]
            finally:
                relay.terminate()
        assert relay.returncode == 0


def _answer_with_the_reverse(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.sendall(_read_all(connection)[::-1])


def _read_all(connection: socket.socket) -> bytes:
    received = bytearray()
    while chunk := connection.recv(65536):
        received += chunk
    return bytes(received)
