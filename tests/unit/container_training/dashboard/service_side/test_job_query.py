from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container_training.dashboard.service_side.job_query import JobQuery, of_task
from training_api.errors import InvalidRequest
from training_api.filtering import And, Comparison, Or, parse_filter
from training_api.states import JobState

NOW = datetime(2026, 11, 20, 12, 0, 42, tzinfo=UTC)


def test_empty_query_asks_for_all_jobs() -> None:
    assert JobQuery().filter(NOW) == ""
    assert JobQuery().dags(None) is None


@pytest.mark.parametrize(
    ("query", "filter_"),
    [
        (JobQuery(states=(JobState.FAILED,)), "(state=FAILED)"),
        (JobQuery(states=(JobState.QUEUED, JobState.RUNNING)), "(state=QUEUED OR state=RUNNING)"),
        (JobQuery(name="digits"), '(jobId:"digits" OR displayName:"*digits*")'),
        (JobQuery(label="team=a"), 'labels.team="a"'),
        (JobQuery(label="team"), "labels.team:*"),
        (JobQuery(label="team=a, tier = b"), 'labels.team="a" AND labels.tier="b"'),
        (JobQuery(since="24h"), 'createTime>="2026-11-19T12:00:00.000000Z"'),
        (JobQuery(start="2026-11-20T08:00:00+02:00"), 'createTime>="2026-11-20T06:00:00.000000Z"'),
        (JobQuery(end="2026-11-20T08:00:00Z"), 'createTime<"2026-11-20T08:00:00.000000Z"'),
    ],
)
def test_each_field_becomes_a_clause(query: JobQuery, filter_: str) -> None:
    assert query.filter(NOW) == filter_


def test_states_can_be_left_out_for_the_counts_beside_them() -> None:
    query = JobQuery(states=(JobState.FAILED,), label="team=a")

    assert query.filter(NOW, with_states=False) == 'labels.team="a"'


@pytest.mark.parametrize(
    ("query", "field"),
    [
        (JobQuery(label="Team=a"), "label"),
        (JobQuery(label="a OR state=FAILED"), "label"),
        (JobQuery(since="2w"), "since"),
        (JobQuery(start="yesterday"), "from"),
        (JobQuery(end="12"), "to"),
    ],
)
def test_what_cannot_be_read_is_refused_by_the_name_of_its_field(query: JobQuery, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        query.filter(NOW)

    assert [violation.field for violation in refused.value.violations] == [field]


#: A filter with NUL is refused by the service, whoever wrote it.
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@given(name=_TEXT, value=_TEXT)
def test_no_text_of_a_person_leaves_its_quotes(name: str, value: str) -> None:
    value = value.replace(",", "")
    tree = parse_filter(
        JobQuery(states=(JobState.FAILED,), name="x" + name, label=f"team={value}").filter(NOW)
    )

    assert isinstance(tree, And)
    _, by_name, by_label = tree.operands
    assert by_name == Or((Comparison("jobId", ":", "x" + name), Comparison("displayName", ":", f"*x{name}*")))
    assert by_label == Comparison("labels.team", "=", value.strip())


def test_dag_is_asked_for_by_its_label_and_only_if_it_may_be_read() -> None:
    assert JobQuery(dag="My.Dag").dags(None) == ["my-dag"]
    assert JobQuery(dag="My.Dag").dags(["my-dag", "other"]) == ["my-dag"]
    assert JobQuery(dag="My.Dag").dags(["other"]) == []
    assert JobQuery().dags(["other"]) == ["other"]


def test_jobs_of_a_task_are_found_by_its_three_labels() -> None:
    text = of_task("My.Dag", "manual__2026-11-20T12:00:00+00:00", "train.submit")

    assert text == (
        'labels.airflow-dag="my-dag" AND labels.airflow-run="manual__2026-11-20t12-00-00-00-00" '
        'AND labels.airflow-task="train-submit"'
    )
