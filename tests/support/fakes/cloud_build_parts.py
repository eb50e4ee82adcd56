"""What the hooks and operators of a test reach instead of Google's Cloud Build."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from airflow.providers.google.cloud.hooks import cloud_build as provider  # noqa: TID253  # what is replaced
from airflow.providers.google.common.hooks.base_google import GoogleBaseHook  # noqa: TID253  # what is replaced
from google.auth.credentials import AnonymousCredentials
from google.cloud.devtools.cloudbuild_v1 import (  # noqa: TID253  # the same
    CloudBuildAsyncClient,
    CloudBuildClient,
)
from google.cloud.devtools.cloudbuild_v1.services.cloud_build.transports import (  # noqa: TID253  # the same
    CloudBuildGrpcAsyncIOTransport,
    CloudBuildGrpcTransport,
)

from container_training.hooks.cloud_build import CloudBuildHook
from container_training.work.object_store import ObjectStore
from tests.support.fakes.cloud_build_server import CloudBuildServer, serve_cloud_build


@contextmanager
def fake_cloud_build(monkeypatch: pytest.MonkeyPatch, store: ObjectStore) -> Iterator[CloudBuildServer]:
    """Yield Cloud Build; tasks of the test also get ``store`` and a connection."""
    connection = {"conn_type": "google_cloud_platform", "extra": {"project": "p-1"}}
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", json.dumps(connection))
    monkeypatch.setattr(GoogleBaseHook, "get_credentials", lambda self: AnonymousCredentials())
    monkeypatch.setattr(GoogleBaseHook, "project_id", "p-1")
    monkeypatch.setattr(CloudBuildHook, "store", store)
    monkeypatch.setattr(CloudBuildHook, "kept", ())
    with serve_cloud_build() as builds, grpc.insecure_channel(builds.address) as channel:
        client = CloudBuildClient(transport=CloudBuildGrpcTransport(channel=channel))
        monkeypatch.setattr(provider.CloudBuildHook, "get_conn", lambda self, location="global": client)

        def async_client(**_: Any) -> CloudBuildAsyncClient:
            channel = grpc.aio.insecure_channel(builds.address)
            return CloudBuildAsyncClient(transport=CloudBuildGrpcAsyncIOTransport(channel=channel))

        monkeypatch.setattr(provider, "CloudBuildAsyncClient", async_client)
        yield builds
