"""Buckets by the JSON API."""

from __future__ import annotations

import pytest

from object_store.api.buckets import REGISTRY_BUCKET
from tests.unit.object_store.conftest import BUCKET, Site


def test_a_bucket_is_made_changed_and_deleted(site: Site) -> None:
    body = {"name": "new-one", "labels": {"a": "1"}, "location": "eu", "versioning": {"enabled": True}}

    assert site.ask("POST", "/storage/v1/b?project=p", json=body).json()["location"] == "EU"
    assert site.ask("POST", "/storage/v1/b", json=body).status_code == 409
    patched = site.ask("PATCH", "/storage/v1/b/new-one", json={"labels": {"b": "2"}}).json()
    assert (patched["labels"], patched["metageneration"]) == ({"a": "1", "b": "2"}, "2")
    anew = site.ask("PUT", "/storage/v1/b/new-one", json={"labels": {"c": "3"}}).json()
    assert (anew["labels"], "versioning" in anew) == ({"c": "3"}, False)
    assert site.ask("DELETE", "/storage/v1/b/new-one?ifMetagenerationMatch=1").status_code == 412
    assert site.ask("DELETE", "/storage/v1/b/new-one").status_code == 204
    assert site.ask("GET", "/storage/v1/b/new-one").status_code == 404


def test_a_bucket_with_objects_is_not_deleted(site: Site) -> None:
    site.put("a")

    assert site.ask("DELETE", BUCKET).status_code == 409


@pytest.mark.parametrize("body", [{}, {"name": "A"}, {"name": 5}, {"name": "ab\n"}, {"name": "x" * 64}])
def test_a_wrong_name_is_refused(body: dict[str, object], site: Site) -> None:
    assert site.ask("POST", "/storage/v1/b", json=body).status_code == 400


def test_buckets_are_listed_in_pages(site: Site) -> None:
    for name in ("aaa", "bbb"):
        site.store.create_bucket(name, {})

    first = site.ask("GET", "/storage/v1/b?maxResults=2&project=p").json()
    second = site.ask("GET", f"/storage/v1/b?pageToken={first['nextPageToken']}").json()

    assert [item["name"] for item in first["items"] + second["items"]] == ["aaa", "bbb", "demo"]
    assert "nextPageToken" not in second
    assert site.ask("GET", "/storage/v1/b?prefix=zz").json() == {"kind": "storage#buckets"}


def test_names_are_flat_and_there_are_no_managed_folders(site: Site) -> None:
    layout = site.ask("GET", f"{BUCKET}/storageLayout").json()

    assert layout["hierarchicalNamespace"] == {"enabled": False}
    assert site.ask("GET", f"{BUCKET}/managedFolders").json() == {"kind": "storage#managedFolders"}
    assert site.ask("GET", "/storage/v1/b/absent/storageLayout").status_code == 404


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("artifacts.demo.appspot.com", True),
        ("eu.artifacts.demo.appspot.com", True),
        ("us.artifacts.appspot.com", False),
        ("mars.artifacts.demo.appspot.com", False),
    ],
)
def test_buckets_of_registries_are_known_by_their_names(name: str, is_one: bool) -> None:
    assert bool(REGISTRY_BUCKET.fullmatch(name)) is is_one


def test_the_use_of_a_folder_is_told(site: Site) -> None:
    site.put("j/a", b"123")

    answer = site.ask("GET", f"{BUCKET}/use", params={"prefix": "j/"})
    later = site.ask("GET", f"{BUCKET}/use", params={"prefix": "j/", "since": 2**62})
    wrong = site.ask("GET", f"{BUCKET}/use", params={"since": "x"})

    assert answer.json() == {"objects": 1, "bytes": 3}
    assert later.json() == {"objects": 0, "bytes": 0}
    assert wrong.status_code == 400
