"""The hook of the object store: one store per hook, made on first use and closed with it."""

from __future__ import annotations

import pytest

from container_training.hooks.storage import StorageHook, object_store_endpoint


class CountedClient:
    """Stands for Google's client: counts how often it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[CountedClient]]:
    """The clients that were made, by the connection that they were made from."""
    from airflow.providers.google.cloud.hooks.gcs import GCSHook

    made: dict[str, list[CountedClient]] = {}

    def get_conn(hook: GCSHook) -> CountedClient:
        client = CountedClient()
        made.setdefault(hook.gcp_conn_id, []).append(client)
        return client

    monkeypatch.setattr(GCSHook, "get_conn", get_conn)
    for conn_id in ("google_of_team", "google_cloud_default"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", "google-cloud-platform://")
    return made


def test_a_hook_makes_no_client_before_it_is_used(clients: dict[str, list[CountedClient]]) -> None:
    with StorageHook():
        pass

    assert clients == {}


def test_one_client_serves_until_the_hook_is_closed(clients: dict[str, list[CountedClient]]) -> None:
    with StorageHook("google_of_team") as hook:
        assert hook.get_conn() is hook.get_conn() is hook.store

    assert [client.closed for client in clients["google_of_team"]] == [1]


def test_a_closed_hook_can_be_used_again_with_a_new_client(clients: dict[str, list[CountedClient]]) -> None:
    hook = StorageHook()
    first = hook.get_conn()
    hook.close()

    assert hook.get_conn() is not first
    assert len(clients["google_cloud_default"]) == 2


@pytest.mark.parametrize(
    ("host", "endpoint"),
    [
        (None, ""),
        ("", ""),
        ("127.0.0.1:9023", "http://127.0.0.1:9023"),
        ("http://127.0.0.1:9023/", "http://127.0.0.1:9023"),
        ("https://store.test", "https://store.test"),
    ],
)
def test_a_local_store_is_found_as_googles_client_finds_it(
    monkeypatch: pytest.MonkeyPatch, host: str | None, endpoint: str
) -> None:
    if host is None:
        monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    else:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", host)

    assert object_store_endpoint() == endpoint
