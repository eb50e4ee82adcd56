"""Preconditions and generations, as Google's own client sends them and as raw requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from google.api_core.exceptions import NotFound, PreconditionFailed

from container_training.work.object_store import ObjectStore
from local_stack.object_store.conditions import next_generation
from training_api.errors import ObjectChanged


def blob(store: ObjectStore, folder: str, name: str = "o", **chosen: int):  # type: ignore[no-untyped-def]
    path = folder.removeprefix("gs://bkt/")
    return store._client.bucket("bkt").blob(f"{path}/{name}", **chosen)


def test_who_wants_nobody_to_have_written_is_refused_when_somebody_has(
    store: ObjectStore, folder: str
) -> None:
    first = store.write_if(f"{folder}/o", b"1", "text/plain", generation=0)
    second = store.write_if(f"{folder}/o", b"2", "text/plain", generation=first)

    for stale in (0, first, second + 1):
        with pytest.raises(ObjectChanged, match="not at generation"):
            store.write_if(f"{folder}/o", b"3", "text/plain", generation=stale)

    assert store.read_version(f"{folder}/o", 10) == (b"2", second)
    assert second > first


def test_large_uploads_keep_their_condition_too(store: ObjectStore, folder: str) -> None:
    # Above 8 MiB the client uploads in several requests, and the condition counts when the last one ends.
    content = bytes(9 * 1024 * 1024)

    generation = store.write_if(f"{folder}/o", content, "text/plain", generation=0)

    with pytest.raises(ObjectChanged):
        store.write_if(f"{folder}/o", content, "text/plain", generation=0)
    found = store.find(f"{folder}/o")
    assert found is not None
    assert (found.generation, found.size_bytes) == (generation, len(content))


def test_a_generation_that_was_overwritten_is_not_found(store: ObjectStore, folder: str) -> None:
    first = store.write_if(f"{folder}/o", b"1", "text/plain", generation=0)
    second = store.write_if(f"{folder}/o", b"2", "text/plain", generation=first)

    assert store.read(f"{folder}/o#{first}", 10) is None
    assert store.read(f"{folder}/o#{second}", 10) == b"2"
    with pytest.raises(NotFound):
        blob(store, folder, generation=first).download_as_bytes()
    with pytest.raises(PreconditionFailed):
        blob(store, folder).download_as_bytes(if_generation_match=first)


def test_deletes_and_patches_keep_conditions(store: ObjectStore, folder: str) -> None:
    generation = store.write_if(f"{folder}/o", b"1", "text/plain", generation=0)
    stored = blob(store, folder)
    stored.metadata = {"a": "b"}

    with pytest.raises(PreconditionFailed):
        stored.patch(if_generation_match=generation + 1)
    with pytest.raises(PreconditionFailed):
        stored.delete(if_generation_match=generation + 1)
    with pytest.raises(NotFound):
        blob(store, folder, generation=generation + 1).delete()
    stored.patch(if_generation_match=generation)
    stored.delete(if_generation_match=generation)

    assert store.find(f"{folder}/o") is None


def test_copies_take_the_generation_that_is_named_and_replace_nothing(
    store: ObjectStore, folder: str
) -> None:
    first = store.write_if(f"{folder}/o", b"1", "text/plain", generation=0)
    copied = store.copy(f"{folder}/o#{first}", f"{folder}/copy")
    again = store.copy(f"{folder}/o#{first}", f"{folder}/copy")
    store.write_if(f"{folder}/o", b"2", "text/plain", generation=first)

    assert again == copied
    assert store.read(copied.pinned_uri, 10) == b"1"
    with pytest.raises(ObjectChanged, match="is not there"):
        store.copy(f"{folder}/o#{first}", f"{folder}/other")
    with pytest.raises(ObjectChanged, match="holds something else"):
        store.copy(f"{folder}/o", f"{folder}/copy")
    with pytest.raises(PreconditionFailed):
        blob(store, folder, "other").rewrite(blob(store, folder), if_source_generation_match=first)


def test_of_many_writers_at_one_moment_one_wins(store: ObjectStore, folder: str) -> None:
    def write(number: int) -> bool:
        try:
            store.write_if(f"{folder}/o", str(number).encode(), "text/plain", generation=0)
        except ObjectChanged:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(write, range(32)))

    assert won.count(True) == 1
    assert store.read(f"{folder}/o", 10) == str(won.index(True)).encode()


def test_a_condition_that_is_no_number_and_one_in_a_batch_are_refused(store_url: str) -> None:
    with httpx.Client(base_url=store_url, trust_env=False) as client:
        odd = client.get("/storage/v1/b/bkt/o/x", params={"ifGenerationMatch": "latest"})
        batch = client.post(
            "/batch/storage/v1",
            headers={"Content-Type": "multipart/mixed; boundary=b"},
            content=b"--b\r\nContent-Type: application/http\r\n\r\n"
            b"DELETE /storage/v1/b/bkt/o/x?ifGenerationMatch=1 HTTP/1.1\r\n\r\n\r\n--b--",
        )

    assert (odd.status_code, batch.status_code) == (400, 400)
    assert "whole number" in odd.json()["error"]["message"]
    assert "by itself" in batch.json()["error"]["message"]


def test_a_reader_who_has_it_gets_nothing_new(store: ObjectStore, store_url: str, folder: str) -> None:
    generation = store.write_if(f"{folder}/o", b"1", "text/plain", generation=0)
    path = f"/storage/v1/b/bkt/o/{folder.removeprefix('gs://bkt/')}%2Fo"

    with httpx.Client(base_url=store_url, trust_env=False) as client:
        same = client.get(path, params={"ifGenerationNotMatch": generation})
        newer = client.get(path, params={"ifGenerationNotMatch": 1})

    assert (same.status_code, newer.status_code) == (304, 200)


@pytest.mark.parametrize(
    ("present", "proposed", "expected"), [(None, "5", "5"), ("4", "5", "5"), ("9", "5", "10")]
)
def test_generations_only_grow(present: str | None, proposed: str, expected: str) -> None:
    assert next_generation({"generation": present} if present else None, proposed) == expected
