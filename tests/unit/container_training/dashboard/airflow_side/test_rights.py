from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container_training.dashboard.airflow_side.rights import Rights
from training_api.job.job_id import label_value


def make_rights(
    known: set[str], readable: set[str], *, reads_all: bool = False, editable: set[str | None] = frozenset()
) -> Rights:
    return Rights(
        known=frozenset(known),
        readable=frozenset(readable),
        reads_all=reads_all,
        may_edit=lambda dag_id: dag_id in editable,
    )


def of_dag(dag_id: str) -> Mapping[str, str]:
    return {"airflow-dag": label_value(dag_id)}


def test_jobs_of_a_readable_dag_are_seen_and_of_another_not() -> None:
    rights = make_rights({"mine", "theirs"}, {"mine"})

    assert rights.labels == ["mine"]
    assert rights.may_read(of_dag("mine"))
    assert not rights.may_read(of_dag("theirs"))


def test_label_that_two_dags_share_gives_a_right_only_to_whoever_has_it_on_both() -> None:
    rights = make_rights({"My.Dag", "my-dag"}, {"my-dag"})
    both = make_rights({"My.Dag", "my-dag"}, {"my-dag", "My.Dag"})

    assert rights.labels == []
    assert not rights.may_read({"airflow-dag": "my-dag"})
    assert both.labels == ["my-dag"]
    assert both.may_read({"airflow-dag": "my-dag"})


@pytest.mark.parametrize("labels", [{}, {"airflow-dag": "deleted"}, {"team": "a"}])
def test_jobs_of_no_known_dag_are_for_those_who_read_all(labels: dict[str, str]) -> None:
    assert not make_rights({"mine"}, {"mine"}).may_read(labels)
    assert make_rights({"mine"}, {"mine"}, reads_all=True).may_read(labels)
    assert make_rights({"mine"}, {"mine"}, reads_all=True).labels is None


def test_whoever_reads_may_not_therefore_cancel() -> None:
    rights = make_rights({"a", "b"}, {"a", "b"}, reads_all=True, editable={"b"})

    assert not rights.may_cancel(of_dag("a"))
    assert rights.may_cancel(of_dag("b"))
    assert not rights.may_cancel({})


def test_whoever_edits_any_dag_may_cancel_jobs_of_none() -> None:
    assert make_rights(set(), set(), reads_all=True, editable={None}).may_cancel({})


def test_edit_right_on_a_dag_that_may_not_be_read_cancels_nothing() -> None:
    assert not make_rights({"a"}, set(), editable={"a", None}).may_cancel(of_dag("a"))


@given(st.sets(st.text("aA._- ", min_size=1, max_size=3), max_size=8), st.data())
def test_no_label_ever_shows_a_job_of_an_unreadable_dag(known: set[str], data: st.DataObject) -> None:
    readable = data.draw(st.sets(st.sampled_from(sorted(known)))) if known else set()
    rights = make_rights(known, readable)

    hidden = {label_value(dag_id) for dag_id in known - readable}

    assert hidden.isdisjoint(rights.labels or [])
    assert not any(rights.may_read({"airflow-dag": label}) for label in hidden)
    assert all(rights.may_read({"airflow-dag": label}) for label in rights.labels or [])
