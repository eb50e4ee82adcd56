"""The size of a page: google.aip.dev/158."""

from __future__ import annotations

import pytest

from training_api.errors import InvalidRequest
from training_service.model.paging import foreign_token, page_size


@pytest.mark.parametrize(
    ("asked", "size"), [(0, 20), (1, 1), (20, 20), (100, 100), (101, 100), (2**31 - 1, 100)]
)
def test_none_is_the_default_and_too_many_are_cut(asked: int, size: int) -> None:
    assert page_size(asked, default=20, maximum=100) == size


@pytest.mark.parametrize(
    ("asked", "shown"),
    [(-1, "-1"), (-(2**63), "a larger number"), (2**31, "2147483648"), (10**4000, "a larger number")],
)
def test_no_page_size_is_refused_with_the_rule(asked: int, shown: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"pageSize: must be from 1 to 100, or 0 for 20; got {shown}"):
        page_size(asked, default=20, maximum=100)


def test_a_foreign_token_is_shown_in_part() -> None:
    (violation,) = foreign_token("x" * 10_000).violations

    assert violation.field == "pageToken"
    assert f"'{'x' * 100}...' is not one that this service gave out; leave it out" in violation.description
