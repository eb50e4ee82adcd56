"""A real gRPC server over a service without a scheduler: jobs stay QUEUED."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from fastapi.testclient import TestClient

from container_engines.memory.engine import MemoryEngine
from tests.support.rpc import ADMIN, ANN, VIEWER, Rpc, serving
from training_api.dialects.registry import DIALECTS
from training_service.parts.identities import Identities
from training_service.settings import ServiceSettings
from training_service.store.database import open_database
from training_service.store.policy_store import PolicyStore
from training_service.telemetry.metrics import Metrics
from training_service.wiring import build_service


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Rpc]]:
    """Return a function that returns clients of a new service; its arguments are settings."""
    with ExitStack() as stack:

        def serve(**settings: Any) -> Rpc:
            known = {"database_url": f"sqlite:///{tmp_path / 'jobs.db'}"} | settings
            asked = ServiceSettings(**known)
            app = build_service(asked, MemoryEngine())
            control = Identities.of(asked, DIALECTS).control(PolicyStore(open_database(asked.database_url)))
            http = TestClient(app, base_url="http://127.0.0.1:8470", raise_server_exceptions=False)
            stack.callback(http.close)
            metrics = Metrics()
            port = stack.enter_context(serving(app, metrics, identify=control.identify))
            channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}"))
            return Rpc(port=port, channel=channel, http=http, metrics=metrics)

        yield serve


@pytest.fixture
def rpc(serve: Callable[..., Rpc]) -> Rpc:
    """A client of an open service."""
    return serve()


@pytest.fixture
def guarded(serve: Callable[..., Rpc], tmp_path: Path) -> Rpc:
    """A service that wants tokens; Ann may run jobs in ``demo``, the viewer may look at them."""
    tokens = tmp_path / "tokens.json"
    principals = [
        {"principal": "user:admin@example.com", "token": ADMIN, "admin": True},
        {"principal": "user:ann@example.com", "token": ANN},
        {"principal": "user:viewer@example.com", "token": VIEWER},
    ]
    tokens.touch(0o600)
    tokens.write_text(json.dumps({"principals": principals}))
    rpc = serve(require_auth=True, tokens_file=tokens)
    bindings = [
        {"role": "roles/aiplatform.user", "members": ["user:ann@example.com"]},
        {"role": "roles/aiplatform.viewer", "members": ["user:viewer@example.com"]},
    ]
    rpc.http.post(
        "/v1/projects/demo:setIamPolicy",
        json={"policy": {"bindings": bindings}},
        headers={"Authorization": f"Bearer {ADMIN}"},
    ).raise_for_status()
    return rpc
