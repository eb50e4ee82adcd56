"""What clients may set of buckets and objects, and how these are written."""

from __future__ import annotations

from typing import Any

import pytest

from object_store.data.records import Bucket, Content, Object
from object_store.errors import Invalid, NotServed
from object_store.resources import bucket_fields, bucket_resource, hash_header, object_fields, object_resource


def test_fields_that_no_client_may_set_are_passed_over() -> None:
    body = {"contentType": "a/b", "size": "7", "generation": "1", "acl": [], "foo": None}

    assert object_fields(body) == {"contentType": "a/b"}
    assert bucket_fields({"name": "x", "projectNumber": "1", "foo": {}}) == {}


def test_null_removes_and_the_rest_stays() -> None:
    present = {"contentType": "a/b", "cacheControl": "x", "metadata": {"a": "1", "b": "2"}}

    assert object_fields({"cacheControl": None, "metadata": {"a": None, "c": "3"}}, present) == {
        "contentType": "a/b",
        "metadata": {"b": "2", "c": "3"},
    }
    assert object_fields({"metadata": None}, present) == {"contentType": "a/b", "cacheControl": "x"}
    assert bucket_fields({"labels": {"a": None}}, {"labels": {"a": "1", "b": "2"}}) == {"labels": {"b": "2"}}


@pytest.mark.parametrize(
    "body",
    [
        {"temporaryHold": True},
        {"eventBasedHold": True},
        {"retention": {"mode": "Locked"}},
        {"kmsKeyName": "projects/x"},
        {"contexts": {"custom": {"a": 1}}},
    ],
)
def test_holds_and_keys_are_said_not_to_be_served(body: dict[str, Any]) -> None:
    with pytest.raises(NotServed, match=f"{next(iter(body))} of objects"):
        object_fields(body)


@pytest.mark.parametrize(
    "body",
    [
        {"lifecycle": {"rule": [{}]}},
        {"cors": [{}]},
        {"retentionPolicy": {"retentionPeriod": "1"}},
        {"hierarchicalNamespace": {"enabled": True}},
        {"defaultEventBasedHold": True},
    ],
)
def test_what_a_bucket_cannot_do_is_said_not_to_be_served(body: dict[str, Any]) -> None:
    with pytest.raises(NotServed, match="of buckets"):
        bucket_fields(body)


def test_an_empty_wish_for_what_is_not_served_is_none() -> None:
    assert object_fields({"temporaryHold": False, "retention": None, "kmsKeyName": ""}) == {}
    assert bucket_fields({"lifecycle": {"rule": []}, "cors": [], "autoclass": {"enabled": False}}) == {}


@pytest.mark.parametrize(
    "body",
    [
        {"contentType": 5},
        {"contentType": "a\r\nX-Evil: 1"},
        {"contentDisposition": "a\nb"},
        {"metadata": {"a": 1}},
        {"metadata": "text"},
        {"metadata": {"a": "b\rc"}},
        {"metadata": {"a\n": "b"}},
        {"metadata": {"a": "é" * 4096}},
        {"customTime": "yesterday"},
        {"customTime": "2026-01-01T00:00:00"},
    ],
)
def test_a_wrong_value_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        object_fields(body)


@pytest.mark.parametrize(
    "body",
    [
        {"labels": {"a": 1}},
        {"labels": 5},
        {"versioning": True},
        {"location": 5},
        {"versioning": {"enabled": "yes"}},
    ],
)
def test_a_wrong_value_of_a_bucket_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        bucket_fields(body)


def test_metadata_may_have_8_kib_with_what_was_there() -> None:
    present = object_fields({"metadata": {"a": "x" * 8191}})

    with pytest.raises(Invalid, match="8192 bytes"):
        object_fields({"metadata": {"b": "x"}}, present)


def test_links_have_the_name_under_which_the_reader_knows_the_store() -> None:
    content = Content(key="k", size=3, crc32c="AAAAAA==", md5=None, components=2)
    stored = Object(
        bucket="demo",
        name="a/é #",
        generation=4,
        metageneration=2,
        content=content,
        fields={"contentType": "a/b"},
        created=1_000_000,
        updated=2_500_000,
        deleted=3_000_000,
    )

    resource = object_resource(stored, "http://x:1")

    assert resource["selfLink"] == "http://x:1/storage/v1/b/demo/o/a%2F%C3%A9%20%23"
    assert resource["mediaLink"].endswith("/o/a%2F%C3%A9%20%23?generation=4&alt=media")
    assert (resource["size"], resource["componentCount"], resource["timeCreated"]) == (
        "3",
        2,
        "1970-01-01T00:00:01.000000Z",
    )
    assert resource["timeDeleted"] == "1970-01-01T00:00:03.000000Z"
    assert "md5Hash" not in resource
    assert hash_header(content) == "crc32c=AAAAAA=="


def test_a_bucket_has_uniform_access_whatever_was_asked_for() -> None:
    fields = bucket_fields({"location": "europe-west4", "iamConfiguration": {"publicAccessPrevention": "x"}})

    resource = bucket_resource(Bucket(name="demo", fields=fields, created=0, updated=0), "http://x")

    assert resource["location"] == "EUROPE-WEST4"
    assert resource["iamConfiguration"]["uniformBucketLevelAccess"] == {"enabled": True}


def test_soft_delete_is_refused_and_none_of_it_is_not() -> None:
    with pytest.raises(NotServed, match="softDeletePolicy"):
        bucket_fields({"softDeletePolicy": {"retentionDurationSeconds": "604800"}})

    assert bucket_fields({"softDeletePolicy": {"retentionDurationSeconds": "0"}}) == {}
