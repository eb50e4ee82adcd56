"""A gRPC server over an app, and a client of both transports of a service."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from fastapi.testclient import TestClient
from google.protobuf.json_format import MessageToDict, ParseDict
from starlette.types import ASGIApp

from tests.support.speed import scaled
from training_service.access.decision import Caller
from training_service.api.vertex_v1.messages import message_class, message_pool
from training_service.grpc_api.methods import method_of
from training_service.grpc_api.server import serving_grpc
from training_service.telemetry.metrics import Metrics

#: Tokens of whom the tests know.
ADMIN, ANN, VIEWER = "token-of-the-administrator", "token-of-ann-0123456789", "token-of-a-viewer-0123"
JOB_SERVICE = "google.cloud.aiplatform.v1.JobService"


@dataclass(kw_only=True)
class Rpc:
    """A client of both transports of one service."""

    port: int
    channel: grpc.Channel
    http: TestClient
    metrics: Metrics = field(default_factory=Metrics)

    def send(self, call: str, message: bytes, token: str = "", seconds: float = 30) -> bytes:
        """Send a serialized message; return the answer."""
        metadata = [("authorization", f"Bearer {token}")] if token else []
        answer: bytes = self.channel.unary_unary(call)(message, metadata=metadata, timeout=scaled(seconds))
        return answer

    def call(
        self, name: str, request: Mapping[str, Any], token: str = "", service: str = JOB_SERVICE
    ) -> dict[str, Any]:
        """Call a method by its messages in JSON."""
        call = f"/{service}/{name}"
        method = method_of(call)
        assert method
        sent = ParseDict(request, message_class(method.request)(), descriptor_pool=message_pool())
        read = message_class(method.response).FromString(self.send(call, sent.SerializeToString(), token))
        found: dict[str, Any] = MessageToDict(read, descriptor_pool=message_pool())
        return found


@contextmanager
def serving(app: ASGIApp, metrics: Metrics, **where: Any) -> Iterator[int]:
    """Serve gRPC over ``app``, which knows everybody, on a loop of its own; yield the port."""
    loop = asyncio.new_event_loop()
    usual = {"identify": lambda _: Caller(is_admin=True), "host": "127.0.0.1", "port": 0}
    server = serving_grpc(app, metrics=metrics, **usual | where)
    with ThreadPoolExecutor(1) as thread:
        port = thread.submit(loop.run_until_complete, server.__aenter__()).result(scaled(30))
        running = thread.submit(loop.run_forever)
        try:
            yield port
        finally:
            stopped = asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop)
            stopped.result(scaled(30))
            loop.call_soon_threadsafe(loop.stop)
            running.result(scaled(30))
            loop.close()
