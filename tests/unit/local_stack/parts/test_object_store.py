"""The object store as a part: a bucket with the folder of the jobs, made once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from local_stack.errors import PartFailed
from local_stack.object_store.server import ObjectStoreServer
from local_stack.parts.object_store import ObjectStore
from tests.support.fakes.stack_workshop import make_workshop
from tests.support.ports import reserve_port


@pytest.fixture
def part(tmp_path: Path) -> Iterator[ObjectStore]:
    """The part, before a store that runs in a thread."""
    server = ObjectStoreServer("127.0.0.1", 0, tmp_path / "data")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield ObjectStore(make_workshop(tmp_path, object_store_port=server.server_port, bucket="team"))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def objects(part: ObjectStore) -> list[tuple[str, str]]:
    answer = httpx.get(f"{part.address()}/storage/v1/b/team/o", trust_env=False).raise_for_status().json()
    return [(item["name"], item["size"]) for item in answer.get("items", [])]


def test_the_bucket_has_the_folder_of_the_jobs(part: ObjectStore) -> None:
    part.complete()

    assert part.is_healthy()
    assert objects(part) == [("jobs/", "0")]


def test_a_second_time_nothing_is_written_over(part: ObjectStore) -> None:
    part.complete()
    httpx.post(
        f"{part.address()}/upload/storage/v1/b/team/o",
        params={"uploadType": "media", "name": "jobs/1/model"},
        content=b"weights",
        trust_env=False,
    ).raise_for_status()

    part.complete()

    assert ("jobs/1/model", "7") in objects(part)


def test_a_store_that_does_not_answer_fails_the_part_with_its_log(tmp_path: Path) -> None:
    part = ObjectStore(make_workshop(tmp_path, object_store_port=reserve_port()))

    assert not part.is_healthy()
    with pytest.raises(PartFailed, match=r"object-store refused to make the bucket .*object-store\.log"):
        part.complete()


def test_the_server_listens_on_loopback_and_keeps_its_objects_in_the_state_folder(tmp_path: Path) -> None:
    part = ObjectStore(make_workshop(tmp_path, object_store_port=9123, training_port=8999))

    part.prepare()
    part.prepare()

    (program,) = part.programs()
    assert {"--host=127.0.0.1", "--port=9123", f"--data-dir={tmp_path}/object-store"} <= set(program.command)
    assert "--training-url=http://127.0.0.1:8999" in program.command
    assert (tmp_path / "object-store").is_dir()
    assert [(each.host, each.port) for each in part.listeners()] == [("127.0.0.1", 9123)]
