"""Which names buckets and objects may have."""

from __future__ import annotations

import pytest

from object_store.errors import Invalid
from object_store.names import check_bucket_name, check_object_name


@pytest.mark.parametrize(
    "name", ["abc", "a-b_c.d", "0a9", "a" * 63, f"{'a' * 63}.{'b' * 63}", "artifacts.demo.appspot.com"]
)
def test_buckets_may_have_these_names(name: str) -> None:
    assert check_bucket_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "ab", "A-b", "-ab", "ab-", "a" * 64, "1.2.3.4", "a..b", "a/b", "abc\n", "é-b", "\ud800ab", None, 5],
)
def test_buckets_may_not_have_these_names(name: object) -> None:
    with pytest.raises(Invalid, match="Invalid bucket name"):
        check_bucket_name(name)


@pytest.mark.parametrize(
    "name", ["a", "/", "a/../b", "...", "é" * 512, "\U0010ffff", "👍 #?%", "\x01\x7f\u2028"]
)
def test_objects_may_have_these_names(name: str) -> None:
    assert check_object_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a\nb", "a\rb", "a\0b", "a" * 1025, "é" * 513, "\ud800", None, 5, ["a"]]
)
def test_objects_may_not_have_these_names(name: object) -> None:
    with pytest.raises(Invalid):
        check_object_name(name)
