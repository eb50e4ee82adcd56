from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse

from training_service.front_door.certificates import ensure_certificates
from training_service.front_door.door import front_door, reached_at


def test_a_port_that_is_taken_is_named_with_its_setting(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path)

    async def enter(port: int) -> None:
        async with front_door(
            PlainTextResponse("rest"),
            host="127.0.0.1",
            port=port,
            certificate=files.certificate,
            key=files.key,
            grpc_port=0,
        ):
            raise AssertionError("it listens")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = f"TRAINING_VERTEX_PROXY_PORT: cannot listen on 127.0.0.1:{port}: "
        with pytest.raises(OSError, match=message):
            asyncio.run(enter(port))


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("0.0.0.0", "127.0.0.1"),  # noqa: S104  # nothing listens there
        ("::", "::1"),
        ("10.0.0.5", "10.0.0.5"),
        ("localhost", "localhost"),
    ],
)
def test_a_server_on_all_addresses_is_reached_over_loopback(host: str, found: str) -> None:
    assert reached_at(host) == found
