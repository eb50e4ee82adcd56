"""Uploads of several requests: who goes on, who waits, and what is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from object_store import uploads as module
from object_store.conditions import Conditions
from object_store.data.contents import GrowingFile
from object_store.data.records import Object
from object_store.errors import ConditionNotMet, Invalid, NotFound, StoreError
from object_store.store import Store
from object_store.uploads import Uploads
from tests.unit.object_store.conftest import files, put, read, target


@contextmanager
def taken(uploads: Uploads, key: str) -> Iterator[GrowingFile]:
    file = uploads.take(key)
    try:
        yield file
    finally:
        uploads.leave(key, file)


def send(uploads: Uploads, key: str, data: bytes) -> None:
    with taken(uploads, key) as file:
        file.write(data)


def finish(uploads: Uploads, key: str, **wanted: str) -> Object:
    with taken(uploads, key) as file:
        return uploads.finish(uploads.find(key), file, wanted)


def send_part(uploads: Uploads, key: str, number: int, data: bytes) -> str:
    with closing(uploads.take_part(key, number)) as file:
        file.write(data)
        md5 = uploads.keep_part(key, number, file, {}).md5
    assert md5
    return md5


def test_an_upload_goes_on_in_another_process(store: Store) -> None:
    first = Uploads(store)
    key = first.begin(target("a"), {"contentType": "x"})
    send(first, key, b"hello ")

    again = Uploads(store)
    send(again, key, b"world")
    stored = finish(again, key)

    assert (read(store, "a"), stored.fields) == (b"hello world", {"contentType": "x"})
    assert stored.content.md5 == put(store, "b", b"hello world").content.md5
    assert again.outcome(again.find(key)) == stored
    assert all(folder == "contents" for folder, _ in files(store))


def test_one_request_at_a_time_sends_an_upload(uploads: Uploads) -> None:
    key = uploads.begin(target("a"), {})

    with taken(uploads, key), pytest.raises(StoreError, match="another request") as refusal:
        uploads.take(key)

    assert refusal.value.status == 503
    send(uploads, key, b"x")


def test_an_upload_that_has_just_been_finished_is_not_begun_again(uploads: Uploads, store: Store) -> None:
    key = uploads.begin(target("a"), {})
    finish(uploads, key)

    with pytest.raises(StoreError, match="another request") as refusal:
        uploads.take(key)

    assert refusal.value.status == 503
    assert [folder for folder, _ in files(store)] == ["contents"]


def test_a_wrong_hash_ends_the_upload(uploads: Uploads, store: Store) -> None:
    key = uploads.begin(target("a"), {}, {"md5": "x"})
    send(uploads, key, b"bytes")

    with pytest.raises(Invalid, match="md5 hash 'x'"):
        finish(uploads, key)

    with pytest.raises(NotFound):
        uploads.find(key)
    assert files(store) == []


def test_conditions_count_at_the_begin_and_at_the_end(uploads: Uploads, store: Store) -> None:
    key = uploads.begin(target("a", GenerationMatch=0), {})
    put(store, "a", b"of another")

    with pytest.raises(ConditionNotMet):
        uploads.begin(target("a", GenerationMatch=0), {})
    with pytest.raises(ConditionNotMet):
        finish(uploads, key)

    assert (read(store, "a"), len(files(store))) == (b"of another", 1)


def test_uploads_of_last_week_and_of_lost_buckets_expire(
    uploads: Uploads, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create_bucket("other", {})
    old, lost = uploads.begin(target("a"), {}), uploads.begin(target("b"), {})
    send(uploads, old, b"x")
    send_part(uploads, old, 1, b"y")
    week = 7 * 24 * 3600 * 1_000_000
    now = module.now_us()
    monkeypatch.setattr(module, "now_us", lambda: now + week - 60_000_000)
    assert uploads.expire() == 0
    young = uploads.begin(target("c"), {})
    monkeypatch.setattr(module, "now_us", lambda: now + week + 60_000_000)

    assert uploads.expire() == 2
    assert uploads.find(young)
    for key in (old, lost):
        with pytest.raises(NotFound):
            uploads.find(key)
    assert files(store) == []
    store.delete_bucket("demo", Conditions())
    assert uploads.expire() == 1


def test_a_cancelled_upload_is_gone_with_its_bytes(uploads: Uploads, store: Store) -> None:
    key = uploads.begin(target("a"), {})
    send(uploads, key, b"x")
    send_part(uploads, key, 1, b"y")

    uploads.cancel(key)

    assert files(store) == []
    for attempt in (uploads.find, uploads.cancel, uploads.take):
        with pytest.raises(NotFound):
            attempt(key)


def test_an_unknown_key_names_no_file(uploads: Uploads) -> None:
    for key in ("../catalog.db", "", ".", "a/b"):
        with pytest.raises(NotFound):
            uploads.take(key)
        with pytest.raises(NotFound):
            uploads.take_part(key, 1)
        with pytest.raises(NotFound):
            uploads.join_parts(key, {1: "x"})


def test_hashes_of_few_uploads_are_kept_and_the_others_computed(
    uploads: Uploads, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HASHES_KEPT", 2)
    keys = [uploads.begin(target(f"a{number}"), {}) for number in range(5)]
    for key in keys * 2:
        send(uploads, key, b"x")

    assert {finish(uploads, key).content.md5 for key in keys} == {put(store, "b", b"xx").content.md5}


def test_parts_are_joined_in_the_order_of_their_numbers(uploads: Uploads, store: Store) -> None:
    key = uploads.begin(target("a"), {"contentType": "x"})
    second, first = send_part(uploads, key, 2, b"two"), send_part(uploads, key, 1, b"one")
    send_part(uploads, key, 10, b"left out")

    stored = uploads.join_parts(key, {2: second, 1: first})

    assert (read(store, "a"), stored.content.md5, stored.content.components) == (b"onetwo", None, 2)
    assert (stored.fields, len(files(store))) == ({"contentType": "x"}, 1)
    assert uploads.join_parts(key, {1: first}) == stored
    with closing(uploads.take_part(key, 1)) as late, pytest.raises(NotFound):
        uploads.keep_part(key, 1, late, {})


def test_a_part_that_is_sent_again_replaces_the_first(uploads: Uploads, store: Store) -> None:
    key = uploads.begin(target("a"), {})
    old, new = send_part(uploads, key, 1, b"old"), send_part(uploads, key, 1, b"new")

    assert len(files(store)) == 1
    for wanted in ({1: old}, {1: new, 2: new}):
        with pytest.raises(Invalid, match="upload it again"):
            uploads.join_parts(key, wanted)
    uploads.join_parts(key, {1: new})
    assert read(store, "a") == b"new"


def test_a_part_whose_repetition_breaks_off_keeps_its_bytes(uploads: Uploads, store: Store) -> None:
    key = uploads.begin(target("a"), {})
    md5 = send_part(uploads, key, 1, b"whole")
    half = uploads.take_part(key, 1)
    half.write(b"ha")
    uploads.drop_part(half)
    half.close()

    uploads.join_parts(key, {1: md5})

    assert (read(store, "a"), len(files(store))) == (b"whole", 1)


@pytest.mark.parametrize("number", [0, 10_001])
def test_parts_have_numbers_from_1_to_10000(number: int, uploads: Uploads) -> None:
    key = uploads.begin(target("a"), {})

    with pytest.raises(Invalid, match="partNumber"):
        uploads.take_part(key, number)
