"""What the service makes of an object store's answers, and of none."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.ports import reserve_port
from training_service.intake.cloud_storage import CloudStorage, StorageUnavailable


class Store:
    """Answers each request with one status and body, and keeps what was asked."""

    def __init__(self) -> None:
        self.status, self.body = 200, {}
        self.asked: list[str] = []
        store = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the base class's name
                store.asked.append(self.path)
                body = json.dumps(store.body).encode()
                self.send_response(store.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()
        self.storage = CloudStorage(f"http://127.0.0.1:{self.server.server_port}")

    def queries(self, path: str) -> list[dict[str, list[str]]]:
        """Return those of all requests, which must be for ``path``."""
        assert {urlsplit(url).path for url in self.asked} == {path}
        return [parse_qs(urlsplit(url).query) for url in self.asked]

    def answer(self, status: int, body: dict[str, Any]) -> None:
        self.status, self.body = status, body


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.delenv("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA")
    store = Store()
    yield store
    store.server.shutdown()
    store.server.server_close()


def test_a_bucket_is_listed_under_its_whole_name_only(store: Store) -> None:
    store.answer(200, {"items": [{"name": "team-2"}, {"name": "team"}]})

    assert store.storage.lists("p", "team")
    assert store.storage.lists("p", "team-2")
    assert not store.storage.lists("p", "tea")
    query = store.queries("/storage/v1/b")[0]
    assert (query["project"], query["prefix"]) == (["p"], ["team"])


@pytest.mark.parametrize("status", [400, 403, 404])
def test_what_the_service_may_not_see_is_not_there(store: Store, status: int) -> None:
    store.answer(status, {"error": {"code": status, "message": "no"}})

    assert not store.storage.lists("p", "team")
    assert store.storage.generation("team", "x") is None


def test_a_generation_is_asked_for_by_its_number(store: Store) -> None:
    store.answer(200, {"name": "x", "bucket": "team", "generation": "7", "size": "1"})

    assert store.storage.generation("team", "x") == 7
    assert store.storage.generation("team", "x", 7) == 7
    assert [query.get("generation") for query in store.queries("/storage/v1/b/team/o/x")] == [None, ["7"]]


@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_that_is_about_the_service_is_no_answer(store: Store, status: int) -> None:
    store.answer(status, {"error": {"code": status, "message": "not now"}})

    with pytest.raises(StorageUnavailable, match="not now"):
        store.storage.lists("p", "team")
    with pytest.raises(StorageUnavailable, match="not now"):
        store.storage.generation("team", "x")


def test_a_store_that_is_not_there_is_no_answer() -> None:
    storage = CloudStorage(f"http://127.0.0.1:{reserve_port()}")

    with pytest.raises(StorageUnavailable):
        storage.lists("p", "team")
    with pytest.raises(StorageUnavailable):
        storage.generation("team", "x")
    with pytest.raises(StorageUnavailable):
        next(storage.list("team", ""))
