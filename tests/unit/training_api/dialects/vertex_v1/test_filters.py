"""Filters of lists of Vertex AI: fields, operators, words for states."""

from __future__ import annotations

import pytest

from training_api.dialects.vertex_v1.filters import read_filter
from training_api.errors import InvalidFilter
from training_api.filtering import And, Comparison, Not, Or

FAILED = Comparison("state", "=", "FAILED")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("", None),
        ('state="JOB_STATE_FAILED"', FAILED),
        ('state="JOB_STATE_PENDING"', Comparison("state", "=", "PREPARING")),
        ('display_name:"my_job_*"', Comparison("display_name", ":", "my_job_*")),
        ('displayName="a"', Comparison("display_name", "=", "a")),
        ('create_time>"2021-05-18T00:00:00Z"', Comparison("create_time", ">", "2021-05-18T00:00:00Z")),
        ('createTime<="2021-05-18T00:00:00Z"', Comparison("create_time", "<=", "2021-05-18T00:00:00Z")),
        ("labels.keyA=valueA", Comparison("labels.keyA", "=", "valueA")),
        ("labels.keyB:*", Comparison("labels.keyB", ":", "*")),
        ("labels:keyB", Comparison("labels.keyB", ":", "*")),
        ('NOT state="JOB_STATE_FAILED"', Not(FAILED)),
        (
            'state="JOB_STATE_FAILED" AND display_name:"a*"',
            And((FAILED, Comparison("display_name", ":", "a*"))),
        ),
        (
            'state!="JOB_STATE_FAILED" OR display_name="a"',
            Or((Comparison("state", "!=", "FAILED"), Comparison("display_name", "=", "a"))),
        ),
    ],
)
def test_a_filter_is_read_into_neutral_words(text: str, tree: object) -> None:
    assert read_filter(text) == tree


def test_a_state_that_no_job_has_may_be_asked_for() -> None:
    assert read_filter('state!="JOB_STATE_PAUSED"') == Comparison("state", "!=", "JOB_STATE_PAUSED")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("job_id=1", "cannot ask for 'job_id'; it can for display_name, state, create_time and labels.KEY"),
        ("state:FAILED", "must be compared by one of = !=, got ':'"),
        ('display_name<"a"', "must be compared by one of = != :, got '<'"),
        ("state=FAILED", "'state' must be one of JOB_STATE_QUEUED, "),
        ("labels.team:a", "a filter must have '*', which asks whether there is such a label, got 'a'"),
        ("state=", "the filter needs a value"),
    ],
)
def test_what_a_list_cannot_be_asked_is_told(text: str, told: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        read_filter(text)

    assert told in str(caught.value)
