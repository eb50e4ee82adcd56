import os
import socket
from collections.abc import Iterator

import pytest

from local_stack.errors import PortTaken
from local_stack.processes.ports import free_port, is_free, listener_on, require_free
from tests.support.ports import reserve_port


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_free_port_is_free() -> None:
    # Another process may be quicker than this one.
    assert any(is_free("127.0.0.1", free_port()) for _ in range(3))
    require_free("127.0.0.1", reserve_port(), "registry", "LOCAL_STACK_REGISTRY_PORT")


def test_a_taken_port_is_named_with_the_process_that_holds_it_and_the_way_out(taken_port: int) -> None:
    with pytest.raises(PortTaken) as refused:
        require_free("127.0.0.1", taken_port, "registry", "LOCAL_STACK_REGISTRY_PORT")

    message = str(refused.value)
    assert f"registry must listen on 127.0.0.1:{taken_port}" in message
    assert f"process {os.getpid()}" in message
    assert "LOCAL_STACK_REGISTRY_PORT" in message


def test_a_listener_on_all_interfaces_is_found_too() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:  # noqa: S104  # what this test is about
        process = listener_on("127.0.0.1", server.getsockname()[1])

    assert process is not None
    assert process.pid == os.getpid()
