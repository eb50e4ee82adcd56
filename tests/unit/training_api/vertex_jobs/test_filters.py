"""A filter of ml.v1 in the words of Vertex AI's lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_api.dialects.vertex_v1.filters import read_filter
from training_api.errors import InvalidFilter
from training_api.filtering import And, Comparison, Not, Or
from training_api.vertex_jobs.filters import vertex_filter


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("", ""),
        ("state=QUEUED", 'state="JOB_STATE_QUEUED"'),
        ("state!=PREPARING", 'state!="JOB_STATE_PENDING"'),
        ("labels.airflow-owner=k", 'labels.airflow-owner="k"'),
        ('labels."team":*', "labels.team:*"),
        ("jobId=chosen", 'display_name="chosen"'),
        ("jobId:part", 'display_name:"*part*"'),
        ("jobId:*", "display_name:*"),
        ("createTime>=2026-01-31", 'create_time>="2026-01-31T00:00:00.000000Z"'),
        ("createTime<'2026'", None),
        ("startTime>2026-01-31", None),
        ("endTime:*", None),
        ("state=BOGUS", None),
        ("state:RUN", None),
        ("jobId<a", None),
        ("jobId:a*b", None),
        ("labels.team:a", None),
        ("labels.team<a", None),
        ('labels."a b"=c', None),
        ("state=", None),
    ],
)
def test_each_field_has_its_word(asked: str, written: str | None) -> None:
    if written is None:
        with pytest.raises(InvalidFilter):
            vertex_filter(asked)
    else:
        assert vertex_filter(asked) == written


@pytest.mark.parametrize("field", ["startTime", "endTime", "nothing"])
def test_what_lists_cannot_be_asked_for_is_named(field: str) -> None:
    with pytest.raises(InvalidFilter, match=f"'{field}'.*createTime"):
        vertex_filter(f"{field}=1")


def test_the_order_of_and_or_and_not_is_kept() -> None:
    written = vertex_filter("jobId=a jobId=b OR NOT (jobId=c AND -jobId=d)")

    a, b, c, d = (Comparison("display_name", "=", name) for name in "abcd")
    assert read_filter(written) == And((a, Or((b, Not(And((c, Not(d))))))))


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20))
def test_a_value_is_one_value_whatever_it_holds(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')

    assert read_filter(vertex_filter(f'labels.a="{escaped}"')) == Comparison("labels.a", "=", value)
