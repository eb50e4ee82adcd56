"""
Measure the object store with small objects and large lists, also beside large uploads.

Writers are processes with Python's own HTTP client, so that the client costs little. 100,000 objects are put
into the catalog before the store starts, all with the same bytes.
"""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.report import Figure, percentile_figure
from benchmarks.support.store_process import BUCKET, StoreProcess, store_process
from object_store.data.catalog import next_generation, put_object
from object_store.data.records import Content, Object, now_us
from object_store.store import Store

WRITERS = 8
SMALL_OBJECTS = 10_000
LISTED_OBJECTS = 100_000
LARGE_BYTES = 200 * 10**6
_LISTS = 200
_IDLE_SECONDS = 20.0
_BLOCK = bytes(1 << 20)
_MIB = 1 << 20


def measure() -> list[Figure]:
    """Return rates, times of lists, and what an idle store takes."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="bench-store-") as folder:  # on the disk
        with store_process(Path(folder) / "small") as store:
            figures = [*_idle(store), *_small(store)]
        _fill(Path(folder) / "many")
        with store_process(Path(folder) / "many") as store:
            seconds = [_list(store.url) for _ in range(_LISTS)]
            figures.append(percentile_figure("a page of a list of 100,000, p99", seconds, 99, limit=0.05))
            with _writers(store.url, _write_large, 1):
                seconds = [_list(store.url) for _ in range(_LISTS)]
            figures.append(
                percentile_figure("the same beside 8 uploads of 200 MB, p99", seconds, 99, limit=0.1)
            )
        return figures


def _idle(store: StoreProcess) -> list[Figure]:
    before = store.process.cpu_times()
    time.sleep(_IDLE_SECONDS)
    after = store.process.cpu_times()
    share = (after.user + after.system - before.user - before.system) / _IDLE_SECONDS * 100
    memory = store.process.memory_info().rss / _MIB
    return [
        Figure(name="idle, memory", value=round(memory, 1), unit="MiB", limit=60.0),
        Figure(name="idle, of a core", value=round(share, 2), unit="%", limit=0.2),
    ]


def _small(store: StoreProcess) -> list[Figure]:
    begun = time.perf_counter()
    with _writers(store.url, _write_small, SMALL_OBJECTS // WRITERS):
        pass
    seconds = time.perf_counter() - begun
    connection = _connect(store.url)
    found, token = 0, ""
    while True:
        page = _ask(
            connection, f"/storage/v1/b/{BUCKET}/o?fields=nextPageToken,items(name)&pageToken={token}"
        )
        found += len(page.get("items", ()))
        token = page.get("nextPageToken", "")
        if not token:
            break
    connection.close()
    return [
        Figure(name="objects of 1 kB, 8 writers", value=round(SMALL_OBJECTS / seconds, 1), unit="/s"),
        Figure(
            name="seconds for 10,000 of them", value=round(seconds, 1), unit="s", limit=SMALL_OBJECTS / 300
        ),
        Figure(name="of these lost", value=SMALL_OBJECTS - found, unit="", limit=0),
    ]


@contextmanager
def _writers(url: str, write: Callable[[str, int, int], None], count: int) -> Iterator[None]:
    """Have all writers write while the block runs; wait for them."""
    context = get_context("spawn")
    processes = [context.Process(target=write, args=(url, number, count)) for number in range(WRITERS)]
    for process in processes:
        process.start()
    yield
    for process in processes:
        process.join()
        if process.exitcode:
            raise RuntimeError(f"a writer ended with {process.exitcode}")


def _write_small(url: str, writer: int, count: int) -> None:
    connection = _connect(url)
    for number in range(count):
        _put(connection, f"small/{writer}/{number}", bytes(1000))
    connection.close()


def _write_large(url: str, writer: int, count: int) -> None:
    connection = _connect(url)
    for number in range(count):
        path = f"/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name=large-{writer}-{number}"
        blocks = (_BLOCK for _ in range(LARGE_BYTES // len(_BLOCK)))
        size = LARGE_BYTES // len(_BLOCK) * len(_BLOCK)
        connection.request("POST", path, blocks, {"Content-Length": str(size)})
        _read(connection)
    connection.close()


def _put(connection: http.client.HTTPConnection, name: str, body: bytes) -> None:
    connection.request("POST", f"/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={name}", body)
    _read(connection)


def _list(url: str) -> float:
    connection = _connect(url)
    begun = time.perf_counter()
    _ask(connection, f"/storage/v1/b/{BUCKET}/o?prefix=jobs/05")
    seconds = time.perf_counter() - begun
    connection.close()
    return seconds


def _ask(connection: http.client.HTTPConnection, path: str) -> Any:
    connection.request("GET", path)
    return json.loads(_read(connection))


def _read(connection: http.client.HTTPConnection) -> bytes:
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != http.client.OK:
        raise RuntimeError(f"{answer.status}: {body[:300]!r}")
    return body


def _connect(url: str) -> http.client.HTTPConnection:
    split = urlsplit(url)
    return http.client.HTTPConnection(str(split.hostname), split.port, timeout=120)


def _fill(root: Path) -> None:
    store = Store(root)
    store.create_bucket(BUCKET, {})
    content = Content(key="0" * 32, size=0, crc32c="AAAAAA==", md5="1B2M2Y8AsgTpgAmY7PhCfg==")

    def change(connection: Any) -> None:
        for number in range(LISTED_OBJECTS):
            now = now_us()
            put_object(
                connection,
                Object(
                    bucket=BUCKET,
                    name=f"jobs/{number:06}/model",
                    generation=next_generation(connection),
                    metageneration=1,
                    content=content,
                    fields={"contentType": "application/octet-stream"},
                    created=now,
                    updated=now,
                ),
            )

    store.catalog.change(change)
    store.close()
