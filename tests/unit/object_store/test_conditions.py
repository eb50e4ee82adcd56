"""Preconditions: which ones hold of what, and which numbers they take."""

from __future__ import annotations

import pytest

from object_store.conditions import Conditions, whole_number
from object_store.data.records import Bucket
from object_store.errors import ConditionNotMet, Invalid, StoreError

BUCKET = Bucket(name="demo", fields={}, created=0, updated=0, metageneration=7, generation=5)


def status_of(conditions: dict[str, int], present: Bucket | None, *, is_read: bool) -> int:
    try:
        Conditions(conditions).check(present, is_read=is_read)
    except ConditionNotMet as error:
        return error.status
    return 200


@pytest.mark.parametrize(
    ("condition", "wanted", "present", "of_read", "of_write"),
    [
        ("GenerationMatch", 5, BUCKET, 200, 200),
        ("GenerationMatch", 6, BUCKET, 412, 412),
        ("GenerationMatch", 0, BUCKET, 412, 412),
        ("GenerationMatch", 0, None, 200, 200),
        ("GenerationMatch", 5, None, 412, 412),
        ("GenerationNotMatch", 5, BUCKET, 304, 412),
        ("GenerationNotMatch", 6, BUCKET, 200, 200),
        ("GenerationNotMatch", 0, None, 304, 412),
        ("GenerationNotMatch", 0, BUCKET, 200, 200),
        ("MetagenerationMatch", 7, BUCKET, 200, 200),
        ("MetagenerationMatch", 5, BUCKET, 412, 412),
        ("MetagenerationMatch", 1, None, 412, 412),
        ("MetagenerationNotMatch", 7, BUCKET, 304, 412),
        ("MetagenerationNotMatch", 5, BUCKET, 200, 200),
    ],
)
def test_a_condition_is_compared_with_what_is_there(
    condition: str, wanted: int, present: Bucket | None, of_read: int, of_write: int
) -> None:
    assert status_of({condition: wanted}, present, is_read=True) == of_read
    assert status_of({condition: wanted}, present, is_read=False) == of_write


def test_all_conditions_of_a_request_must_hold() -> None:
    query = {"ifGenerationMatch": "5", "ifMetagenerationMatch": "8", "other": "x"}

    with pytest.raises(ConditionNotMet, match="ifMetagenerationMatch is 8, the object's is 7"):
        Conditions.of(query).check(BUCKET)


def test_those_of_a_copys_source_have_their_own_names() -> None:
    query = {"ifGenerationMatch": "1", "ifSourceGenerationMatch": "2"}

    assert Conditions.of(query).wanted == {"GenerationMatch": 1}
    assert Conditions.of(query, "ifSource").wanted == {"GenerationMatch": 2}


@pytest.mark.parametrize("text", ["", "-1", "1.0", "x", " 1", "1_0", "²", "٣", str(2**63), "9" * 5000])
def test_a_number_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="ifGenerationMatch must be a whole number"):
        Conditions.of({"ifGenerationMatch": text})


def test_the_largest_number_has_63_bits() -> None:
    assert whole_number("n", str(2**63 - 1)) == 2**63 - 1
    with pytest.raises(StoreError):
        whole_number("n", str(2**63))
