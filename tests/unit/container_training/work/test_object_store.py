"""Objects by ``gs://`` address: reads, writes and lists over a client of Google's."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from container_training.work.object_store import ObjectStore, folder_url, split_uri
from training_api.errors import ObjectChanged, ResultsMissing


@pytest.mark.parametrize(
    ("endpoint", "uri", "address"),
    [
        ("", "gs://b/jobs/a b", "https://console.cloud.google.com/storage/browser/b/jobs/a%20b/"),
        ("", "gs://b", "https://console.cloud.google.com/storage/browser/b/"),
        ("http://o:1", "gs://b/jobs/1/", "http://o:1/storage/v1/b/b/o?prefix=jobs%2F1%2F"),
        ("http://o:1", "gs://b/", "http://o:1/storage/v1/b/b/o?prefix="),
    ],
)
def test_a_folder_is_opened_where_its_store_is(endpoint: str, uri: str, address: str) -> None:
    assert folder_url(endpoint, uri) == address


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("gs://b/a/x.csv", ("b", "a/x.csv")),
        ("gs://b/a//x#1", ("b", "a//x#1")),
        ("gs://b/", ("b", "")),
        ("gs://b", ("b", "")),
    ],
)
def test_an_address_is_a_bucket_and_a_name(uri: str, parts: tuple[str, str]) -> None:
    assert split_uri(uri) == parts


@pytest.mark.parametrize("uri", ["", "b/x", "/b/x", "s3://b/x", "gs:///x", "GS://b/x"])
def test_any_other_address_is_refused_as_it_was_written(uri: str) -> None:
    with pytest.raises(ValueError, match="expected gs://BUCKET/NAME") as caught:
        split_uri(uri)

    assert repr(uri) in str(caught.value)


def test_a_list_is_cut_at_its_limit_and_says_so(store: ObjectStore, folder: str) -> None:
    for name in ("b", "a", "c/d"):
        store.write_if_changed(f"{folder}/{name}", b"1", "text/plain")

    files, is_cut = store.list_files(f"{folder}/", 2)
    all_files, is_all_cut = store.list_files(f"{folder}/", 3)

    assert [file.uri for file in files] == [f"{folder}/a", f"{folder}/b"]
    assert (is_cut, len(all_files), is_all_cut) == (True, 3, False)


def test_a_bucket_that_is_not_there_is_named(store: ObjectStore) -> None:
    with pytest.raises(ResultsMissing, match="bucket 'absent' of gs://absent/x/ does not exist"):
        store.list_files("gs://absent/x/", 1)
    with pytest.raises(ResultsMissing, match="bucket 'absent'"):
        store.write_if("gs://absent/x", b"1", "text/plain", generation=0)
    assert list(store.generations("gs://absent/x")) == []


def test_a_file_is_there_by_its_whole_name_and_a_folder_by_what_is_below(
    store: ObjectStore, folder: str
) -> None:
    store.write_if_changed(f"{folder}/data/x.csv", b"1", "text/plain")

    assert store.has_file(f"{folder}/data/x.csv")
    assert store.has_file(f"{folder}/data/")
    assert not store.has_file(f"{folder}/data")
    assert not store.has_file(f"{folder}/dat/")


def test_a_folder_named_without_its_slash_has_no_neighbours(store: ObjectStore, folder: str) -> None:
    for name in ("data", "data/x", "data-2", "database/x"):
        store.write_if_changed(f"{folder}/{name}", b"1", "text/plain")
    prefix = folder.removeprefix("gs://bkt/")

    found = dict(store.generations(f"{folder}/data"))

    assert set(found) == {f"{prefix}/data", f"{prefix}/data/x"}
    assert all(generation > 0 for generation in found.values())


def test_what_is_too_large_is_not_read(store: ObjectStore, folder: str) -> None:
    store.write_if_changed(f"{folder}/x", b"12345", "text/plain")

    assert store.read(f"{folder}/x", 5) == b"12345"
    assert store.read(f"{folder}/absent", 5) is None
    with pytest.raises(ResultsMissing, match="must be at most 4 bytes, got 5"):
        store.read(f"{folder}/x", 4)


def test_an_object_that_is_replaced_between_look_and_read_is_read_again(
    store: ObjectStore, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"{folder}/x"
    store.write_if_changed(uri, b"old", "text/plain")
    find, writes = store.find, [b"new"]

    def find_then_replace(uri: str) -> object:
        found = find(uri)
        if writes:
            store.write_if_changed(uri, writes.pop(), "text/plain")
        return found

    monkeypatch.setattr(store, "find", find_then_replace)

    assert store.read(uri, 10) == b"new"


def test_the_same_content_is_written_once(store: ObjectStore, folder: str) -> None:
    uri = f"{folder}/x"

    written = [store.write_if_changed(uri, content, "text/plain") for content in (b"1", b"1", b"2", b"1")]

    assert written == [True, False, True, True]


def test_a_file_is_written_where_there_is_none(store: ObjectStore, folder: str) -> None:
    file = io.BytesIO(b"content")
    file.seek(3)

    first = store.write_new(f"{folder}/a", file, "text/plain")
    again = store.write_new(f"{folder}/a", io.BytesIO(b"other"), "text/plain")

    assert again == first
    assert store.read(f"{folder}/a", 100) == b"content"
    with pytest.raises(ResultsMissing, match="bucket 'no-such' of gs://no-such/a does not exist"):
        store.write_new("gs://no-such/a", io.BytesIO(b""), "text/plain")


def test_a_copy_is_made_once_and_never_over_something_else(store: ObjectStore, folder: str) -> None:
    for name, content in (("a", b"1"), ("same", b"1"), ("other", b"2")):
        store.write_if_changed(f"{folder}/{name}", content, "text/plain")

    copied = store.copy(f"{folder}/a", f"{folder}/b")

    assert store.copy(f"{folder}/a", f"{folder}/b") == copied
    assert store.copy(f"{folder}/a", f"{folder}/same").uri == f"{folder}/same"
    with pytest.raises(ObjectChanged, match="holds something else than"):
        store.copy(f"{folder}/a", f"{folder}/other")
    with pytest.raises(ObjectChanged, match="is not there"):
        store.copy(f"{folder}/absent", f"{folder}/c")


def test_a_copy_of_a_generation_is_of_that_one_or_none(store: ObjectStore, folder: str) -> None:
    uri = f"{folder}/a"
    first = store.write_if(uri, b"1", "text/plain", generation=0)
    second = store.write_if(uri, b"2", "text/plain", generation=first)

    store.copy(f"{uri}#{second}", f"{folder}/b")

    assert store.read(f"{folder}/b", 10) == b"2"
    with pytest.raises(ObjectChanged):
        store.copy(f"{uri}#{first}", f"{folder}/c")


def test_what_is_below_a_folder_is_deleted_and_its_neighbours_stay(store: ObjectStore, folder: str) -> None:
    for name in ("a/1", "a/2/3", "ab"):
        store.write_if_changed(f"{folder}/{name}", b"1", "text/plain")

    deleted = store.delete_folder(f"{folder}/a")

    assert [file.uri for file in deleted] == [f"{folder}/a/1", f"{folder}/a/2/3"]
    assert store.delete_folder(f"{folder}/a") == []
    assert store.has_file(f"{folder}/ab")


def test_a_browser_is_sent_to_the_store_or_to_googles_page_with_a_login() -> None:
    local = ObjectStore(SimpleNamespace(api_endpoint="http://127.0.0.1:9023"))
    google = ObjectStore(SimpleNamespace(api_endpoint="https://storage.googleapis.com"))

    assert local.browser_url("gs://b/a b/c") == "http://127.0.0.1:9023/storage/v1/b/b/o/a%20b%2Fc?alt=media"
    assert google.browser_url("gs://b/a b/c") == "https://storage.cloud.google.com/b/a%20b/c"
