"""The object store as a part: a bucket with the folder of the jobs, made once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from local_stack.errors import EngineMissing, PartFailed
from local_stack.parts import object_store as module
from local_stack.parts.object_store import ObjectStore
from tests.support import web
from tests.support.bed.store_thread import store_in_thread
from tests.support.fakes.stack_workshop import make_workshop
from tests.support.ports import reserve_port


@pytest.fixture(autouse=True)
def gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the engine be one whose bridge is not this machine's; tests choose others."""
    monkeypatch.setattr(module, "find_gateway", lambda url: None)


@pytest.fixture
def part(tmp_path: Path) -> Iterator[ObjectStore]:
    """The part, before a store that runs in a thread."""
    with store_in_thread(tmp_path / "data") as url:
        yield ObjectStore(make_workshop(tmp_path, object_store_port=httpx.URL(url).port, bucket="team"))


def objects(part: ObjectStore) -> list[tuple[str, str]]:
    answer = web.get(f"{part.address()}/storage/v1/b/team/o").raise_for_status().json()
    return [(item["name"], item["size"]) for item in answer.get("items", [])]


def test_the_bucket_has_the_folder_of_the_jobs(part: ObjectStore) -> None:
    part.complete()

    assert part.is_healthy()
    assert objects(part) == [("jobs/", "0")]


def test_a_second_time_nothing_is_written_over(part: ObjectStore) -> None:
    part.complete()
    web.post(
        f"{part.address()}/upload/storage/v1/b/team/o",
        params={"uploadType": "media", "name": "jobs/1/model"},
        content=b"weights",
    ).raise_for_status()

    part.complete()

    assert ("jobs/1/model", "7") in objects(part)


def test_its_use_is_told_in_words(part: ObjectStore, tmp_path: Path) -> None:
    part.complete()
    away = ObjectStore(make_workshop(tmp_path, object_store_port=reserve_port()))

    use = part.use()

    assert use is not None
    assert re.fullmatch(r"1 objects, 0\.0 MiB; the disk has \d+\.\d GiB left", use)
    assert away.use() is None


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
    assert {"--host=127.0.0.1", "--port=9123", f"--root={tmp_path}/object-store"} <= set(program.command)
    assert "--training-url=http://127.0.0.1:8999" in program.command
    assert (tmp_path / "object-store").is_dir()
    assert [(each.host, each.port) for each in part.listeners()] == [("127.0.0.1", 9123)]


def test_it_listens_for_containers_on_the_bridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_gateway", lambda url: "172.17.0.1")
    part = ObjectStore(make_workshop(tmp_path, object_store_port=9123))

    (program,) = part.programs()

    assert "--containers-host=172.17.0.1" in program.command
    assert [(each.host, each.port, each.setting) for each in part.listeners()] == [
        ("127.0.0.1", 9123, "LOCAL_STACK_OBJECT_STORE_PORT"),
        ("172.17.0.1", 9123, "LOCAL_STACK_OBJECT_STORE_PORT"),
    ]


def test_its_health_is_told_without_an_engine(part: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(url: str) -> str:
        raise EngineMissing("no Docker Engine answers")

    monkeypatch.setattr(module, "find_gateway", missing)

    assert part.is_healthy()


def test_with_other_machines_containers_come_to_the_advertised_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_gateway", lambda url: "172.17.0.1")
    part = ObjectStore(make_workshop(tmp_path, require_auth=True, advertise_address="10.0.0.5"))

    (program,) = part.programs()

    assert "--containers-host=10.0.0.5" in program.command
    assert [each.host for each in part.listeners()] == ["127.0.0.1", "10.0.0.5"]
