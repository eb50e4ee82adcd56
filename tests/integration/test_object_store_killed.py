"""An object store that is killed loses no object that it answered, and leaves no file."""

from __future__ import annotations

import base64
import hashlib
import random
import socket
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import google_crc32c
import httpx
import pytest

from tests.support import web
from tests.support.bed.object_store import start_object_store
from tests.support.ports import reserve_port
from tests.support.waiting import wait_until

_ROUNDS = 6
_WRITERS = 6
_NAMES = 5
_CHUNK = 256 * 1024
#: A request whose body never ends.
_HALF_AN_UPLOAD = (
    b"POST /upload/storage/v1/b/bkt/o?uploadType=media&name=half HTTP/1.1\r\n"
    b"Host: localhost\r\nContent-Length: 1000\r\n\r\nhalf"
)


def contents(name: str, version: int) -> bytes:
    """Return the bytes that ``name`` has in one version; they begin with it."""
    head = f"{version};{name};".encode()
    size = _CHUNK * 2 + 1000 + version if "resumable" in name else 150_000 + version
    return (head * (size // len(head) + 1))[:size]


class Writer:
    """Writes versions of its objects one after the other; knows which were answered."""

    def __init__(self, url: str, number: int, seed: int) -> None:
        self._url = url
        self._number = number
        self._random = random.Random(seed)
        self._version = 0
        #: A resumable upload that a kill has interrupted: session, name and version.
        self._open: tuple[str, str, int] | None = None
        #: Name -> the last version that was answered.
        self.answered: dict[str, int] = {}
        #: What went wrong, beside that the store is gone.
        self.faults: list[str] = []

    def run(self) -> None:
        """Write until the store is gone."""
        with web.client(base_url=self._url) as http:
            try:
                while not self.faults:
                    if self._open:
                        self._resume(http)
                    else:
                        self._write(http)
            except httpx.TransportError:
                return
            except httpx.HTTPStatusError as error:
                self.faults.append(f"{error}: {error.response.text}")

    def _write(self, http: httpx.Client) -> None:
        self._version += 1
        kind = self._random.choice(["media", "resumable", "composed"])
        name = f"{kind}/{self._number}/{self._random.randrange(_NAMES)}"
        if kind == "media":
            self._media(http, name)
        elif kind == "resumable":
            body = {"name": name, "metadata": {"version": str(self._version)}}
            begun = http.post("/upload/storage/v1/b/bkt/o?uploadType=resumable", json=body)
            self._open = begun.raise_for_status().headers["location"], name, self._version
        else:
            parts = [f"media/{self._number}/{name.replace('/', '-')}-{part}" for part in range(3)]
            for part in parts:
                self._media(http, part)
            sources = {"sourceObjects": [{"name": part} for part in parts]}
            http.post(f"/storage/v1/b/bkt/o/{quote(name, safe='')}/compose", json=sources).raise_for_status()
            self.answered[name] = self._version

    def _media(self, http: httpx.Client, name: str) -> None:
        query = {"uploadType": "media", "name": name}
        body = contents(name, self._version)
        http.post("/upload/storage/v1/b/bkt/o", params=query, content=body).raise_for_status()
        self.answered[name] = self._version

    def _resume(self, http: httpx.Client) -> None:
        """Send the upload's next chunk, from where the store says that it is."""
        assert self._open is not None
        session, name, version = self._open
        body = contents(name, version)
        answer = http.put(session, headers={"content-range": f"bytes */{len(body)}"})
        while answer.status_code == 308:
            here = int(answer.headers.get("range", "bytes=0--1").removeprefix("bytes=0-")) + 1
            chunk = body[here : here + _CHUNK]
            place = {"content-range": f"bytes {here}-{here + len(chunk) - 1}/{len(body)}"}
            answer = http.put(session, headers=place, content=chunk)
        # 503: the request that the kill of a connection left behind is still at work.
        if answer.status_code != 503:
            answer.raise_for_status()
            self._open = None
            self.answered[name] = version


def assert_whole(resource: dict[str, str], body: bytes) -> None:
    """The bytes are those of a version of the object, and the hashes are theirs."""
    name = resource["name"]
    if name.startswith("composed"):
        versions = [int(piece[:8].split(b";")[0]) for piece in _pieces(name, body)]
        assert len(versions) == 3
    else:
        assert body == contents(name, int(body.split(b";", 1)[0])), name
        md5 = hashlib.md5(body, usedforsecurity=False).digest()
        assert resource["md5Hash"] == base64.b64encode(md5).decode()
    assert resource["size"] == str(len(body))
    assert resource["crc32c"] == base64.b64encode(google_crc32c.Checksum(body).digest()).decode()


def _pieces(name: str, body: bytes) -> list[bytes]:
    """Return the sources that an object was composed of; each must be one whole version."""
    pieces = []
    while body:
        version, part, _ = body.split(b";", 2)
        piece = contents(part.decode(), int(version))
        assert body.startswith(piece), name
        pieces.append(piece)
        body = body[len(piece) :]
    return pieces


def version_of(body: bytes) -> int:
    return int(body.split(b";", 1)[0])


def unnamed_files(root: Path) -> set[str]:
    """Return files that the catalog does not name, and names without a file."""
    with closing(sqlite3.connect(root / "catalog.db")) as connection:
        named = {key for (key,) in connection.execute("SELECT key FROM objects")}
        begun = {key for (key,) in connection.execute("SELECT key FROM uploads WHERE generation IS NULL")}
    kept = {path.name for path in (root / "contents").glob("*/*")}
    growing = {path.name for path in (root / "uploads").iterdir()}
    return (kept ^ named) | (growing - begun)


def is_at_work(root: Path, writers: list[Writer]) -> bool:
    """Tell whether uploads have begun, and some were answered."""
    return any((root / "uploads").iterdir()) and any(writer.answered for writer in writers)


@pytest.mark.parametrize("seed", [20261123])
def test_kills_lose_nothing_that_was_answered_and_leave_nothing(seed: int, tmp_path: Path) -> None:
    port, root = reserve_port(), tmp_path / "store"
    url = f"http://127.0.0.1:{port}"
    chance = random.Random(seed)
    writers = [Writer(url, number, chance.randrange(2**32)) for number in range(_WRITERS)]
    left = 0
    for round_number in range(_ROUNDS):
        with start_object_store(port, root, kept=tmp_path / "log") as process:
            try:
                if round_number == 0:
                    made = web.post(f"{url}/storage/v1/b", json={"name": "bkt"})
                    made.raise_for_status()
                threads = [threading.Thread(target=writer.run) for writer in writers]
                for thread in threads:
                    thread.start()
                with socket.create_connection(("127.0.0.1", port)) as half:
                    half.sendall(_HALF_AN_UPLOAD)
                    wait_until(lambda: is_at_work(root, writers), "writes are under way", poll_seconds=0.01)
                    time.sleep(chance.uniform(0.0, 0.9))
                    process.kill()
            finally:
                process.kill()
        for thread in threads:
            thread.join()
        left += len(unnamed_files(root))
        assert [writer.faults for writer in writers] == [[]] * _WRITERS

    with (
        start_object_store(port, root, kept=tmp_path / "log") as process,
        web.client(base_url=url) as http,
    ):
        try:
            wait_until(lambda: not unnamed_files(root), "no file is left that nobody names", seconds=20)
            listed = http.get("/storage/v1/b/bkt/o").raise_for_status().json()
            versions = {}
            for resource in listed["items"]:
                path = f"/storage/v1/b/bkt/o/{quote(resource['name'], safe='')}?alt=media"
                body = http.get(path).raise_for_status().content
                assert_whole(resource, body)
                versions[resource["name"]] = version_of(body)
        finally:
            process.terminate()
    answered = {name: version for writer in writers for name, version in writer.answered.items()}
    print(f"{len(answered)} answered, {len(versions)} listed, the kills left {left} files")
    assert left
    assert len(answered) > _WRITERS
    assert {name: version for name, version in answered.items() if versions.get(name, -1) < version} == {}
    assert process.returncode == 0
