"""What the object store's server does for gcloud that the emulator does not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from local_stack.object_store.server import ObjectStoreServer

CONTENT = bytes(range(256)) * 4


@pytest.fixture
def store(tmp_path: Path) -> Iterator[httpx.Client]:
    server = ObjectStoreServer("127.0.0.1", 0, tmp_path)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{server.server_port}", trust_env=False) as client:
        client.post("/storage/v1/b", json={"name": "bkt"}).raise_for_status()
        yield client
    server.shutdown()
    thread.join()
    server.server_close()


def read(store: httpx.Client, name: str) -> bytes:
    return (
        store.get(f"/download/storage/v1/b/bkt/o/{name}", params={"alt": "media"}).raise_for_status().content
    )


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_multipart_upload_may_quote_its_boundary_in_any_way(store: httpx.Client, quote: str) -> None:
    # captured: gcloud 528 sends lines that end with LF alone, and single quotes.
    body = (
        b'--==7==\nContent-Type: application/json\nMIME-Version: 1.0\n\n{"size": "1024"}\n'
        b"--==7==\nContent-Type: application/x-tar\nMIME-Version: 1.0\nContent-Transfer-Encoding: binary\n\n"
        + CONTENT
        + b"\n--==7==--"
    )

    answer = store.post(
        "/upload/storage/v1/b/bkt/o",
        params={"uploadType": "multipart", "name": "p.tar.gz"},
        headers={"Content-Type": f"multipart/related; boundary={quote}==7=={quote}"},
        content=body,
    )

    assert answer.status_code == 200, answer.text
    assert answer.json()["size"] == str(len(CONTENT))
    assert read(store, "p.tar.gz") == CONTENT


def test_a_resumable_upload_may_begin_where_gcloud_begins_it(store: httpx.Client) -> None:
    begun = store.post(
        "/resumable/upload/storage/v1/b/bkt/o",
        params={"uploadType": "resumable", "name": "big.tar.gz"},
        headers={"X-Upload-Content-Type": "application/x-tar", "X-Upload-Content-Length": str(len(CONTENT))},
        json={"size": str(len(CONTENT))},
    )
    assert begun.status_code == 200, begun.text

    done = store.put(
        begun.headers["Location"],
        headers={"Content-Range": f"bytes 0-{len(CONTENT) - 1}/{len(CONTENT)}"},
        content=CONTENT,
    )

    assert done.json()["size"] == str(len(CONTENT))
    assert read(store, "big.tar.gz") == CONTENT
