"""The route of requests for policies: direct on loopback, by the proxy to Google."""

from __future__ import annotations

import socket

import pytest

from training_api.clients.iam import IamEndpoints, IamPoliciesClient
from training_api.errors import TransportError
from training_api.iam.registry_resources import ResourceKind


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    """A proxy of the environment that takes connections and never answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.2)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, address)
        monkeypatch.setenv(name.lower(), address)
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return listener


@pytest.mark.parametrize("is_remote", [True, False])
def test_only_requests_to_google_go_through_the_proxy(proxy: socket.socket, is_remote: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        local = IamEndpoints(resource_manager=url, artifact_registry=url, storage=url)
        endpoints = IamEndpoints() if is_remote else local
        with (
            IamPoliciesClient(endpoints, timeout_seconds=0.2) as client,
            pytest.raises(TransportError, match="did not answer"),
        ):
            client.get_policy(ResourceKind.PROJECT, "projects/p")
    asked = True
    try:
        proxy.accept()[0].close()
    except TimeoutError:
        asked = False
    finally:
        proxy.close()
    assert asked is is_remote
