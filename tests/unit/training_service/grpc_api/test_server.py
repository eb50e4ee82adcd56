"""The gRPC server: TLS, ports, its end."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from starlette.responses import JSONResponse

from container_engines.memory.engine import MemoryEngine
from tests.support.certificates import own_certificate
from tests.support.rpc import JOB_SERVICE, serving
from tests.support.speed import scaled
from training_api.errors import TrainingError
from training_service.api.vertex_v1.messages import message_class
from training_service.grpc_api import server
from training_service.grpc_api.server import GrpcPortUnusable
from training_service.settings import ServiceSettings
from training_service.telemetry.metrics import Metrics
from training_service.wiring import build_service

GET = f"/{JOB_SERVICE}/GetCustomJob"
MESSAGE = message_class("GetCustomJobRequest")(
    name="projects/p/locations/us-central1/customJobs/1"
).SerializeToString()
APP = JSONResponse({"displayName": "served"})


@pytest.fixture
def pem(tmp_path: Path) -> dict[str, str]:
    """The paths of a certificate of 127.0.0.1 and its key."""
    for name, content in zip(("certificate", "key"), own_certificate("127.0.0.1"), strict=True):
        (tmp_path / name).write_bytes(content)
    return {name: str(tmp_path / name) for name in ("certificate", "key")}


def name_over(channel: grpc.Channel) -> str:
    answer = message_class("CustomJob").FromString(channel.unary_unary(GET)(MESSAGE, timeout=30))
    return str(answer.display_name)


def test_a_channel_in_plaintext_is_answered() -> None:
    with serving(APP, Metrics()) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        assert name_over(channel) == "served"


def test_with_a_certificate_only_tls_is_answered(pem: dict[str, str]) -> None:
    trusted = grpc.ssl_channel_credentials(Path(pem["certificate"]).read_bytes())
    with serving(APP, Metrics(), **pem) as port:
        with grpc.secure_channel(f"127.0.0.1:{port}", trusted) as channel:
            assert name_over(channel) == "served"
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, pytest.raises(grpc.RpcError) as caught:
            name_over(channel)

    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_the_library_is_not_imported_where_there_is_no_port() -> None:
    program = "import sys, training_service.server; sys.exit('grpc' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_without_the_extra_the_service_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "training_service.grpc_api.server", None)
    settings = ServiceSettings(database_url=f"sqlite:///{tmp_path / 'jobs.db'}", grpc_port=8472)

    with pytest.raises(TrainingError, match=r"pip install 'container-training-service\[grpc\]'"):
        build_service(settings, MemoryEngine())


def test_an_address_of_ipv6_is_one() -> None:
    with serving(APP, Metrics(), host="::1") as port, grpc.insecure_channel(f"[::1]:{port}") as channel:
        assert name_over(channel) == "served"


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(GrpcPortUnusable, match=f"gRPC cannot listen on 127.0.0.1:{port}: it is taken"),
            serving(APP, Metrics(), port=port),
        ):
            pass


def test_files_that_cannot_be_read_are_named(pem: dict[str, str]) -> None:
    with (
        pytest.raises(GrpcPortUnusable, match="must be PEM files that can be read"),
        serving(APP, Metrics(), **pem | {"key": "/absent/key.pem"}),
    ):
        pass


def test_a_flood_of_pings_closes_the_connection() -> None:
    """By the bytes of HTTP/2: gRPC's own client does not send so many."""
    settings, ping = b"\0\0\0\x04\0\0\0\0\0", b"\0\0\x08\x06\0\0\0\0\0" + b"12345678"
    with serving(APP, Metrics()) as port, socket.create_connection(("127.0.0.1", port), 30) as flood:
        flood.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + 10 * ping)
        said = b""
        with suppress(ConnectionResetError):
            while received := flood.recv(65536):
                said += received

    assert b"too_many_pings" in said


def test_a_call_that_is_being_answered_ends_well_when_the_server_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "_STOP_SECONDS", scaled(60))
    begun, may_go_on = threading.Event(), threading.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        import asyncio

        begun.set()
        await asyncio.to_thread(may_go_on.wait, 30)
        await APP(scope, receive, send)

    with ThreadPoolExecutor(1) as thread:
        with serving(slow, Metrics()) as port:
            channel = grpc.insecure_channel(f"127.0.0.1:{port}")
            answer = thread.submit(name_over, channel)
            assert begun.wait(30)
            threading.Timer(0.2, may_go_on.set).start()
        assert answer.result(30) == "served"
        channel.close()
