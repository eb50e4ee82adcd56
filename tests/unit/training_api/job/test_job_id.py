"""Names that a task gives its job."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from training_api.dialects.ml_v1.rules.job_rules import JOB_ID
from training_api.job.job_id import TaskKey, job_id_for, label_value, numbered_job_id

KEYS = st.builds(
    TaskKey,
    dag_id=st.text(max_size=300),
    task_id=st.text(max_size=300),
    run_id=st.text(),
    map_index=st.integers(-1, 9),
)


def make_key(**changes: object) -> TaskKey:
    fields = {"dag_id": "train_digits", "task_id": "train.submit", "run_id": "manual__1"}
    return TaskKey(**{**fields, **changes})  # type: ignore[arg-type]


@given(KEYS, st.integers(1, 10**6))
def test_every_task_gets_a_job_id_that_the_api_accepts(key: TaskKey, attempt: int) -> None:
    assert JOB_ID.fullmatch(job_id_for(key, attempt))


@given(KEYS, KEYS, st.integers(1, 99), st.integers(1, 99))
def test_different_tasks_or_attempts_never_share_a_job_id(a: TaskKey, b: TaskKey, i: int, j: int) -> None:
    assert (job_id_for(a, i) == job_id_for(b, j)) == ((a, i) == (b, j))


def test_the_job_id_can_be_read_by_a_person() -> None:
    job_id = job_id_for(make_key(), 2)

    assert job_id.startswith("train_digits_train_submit_")
    assert job_id.endswith("_2")


def test_a_dag_name_without_a_leading_letter_still_gives_a_job_id() -> None:
    assert job_id_for(make_key(dag_id="2026-plan"), 1).startswith("job_2026_plan_")


def test_the_users_own_job_id_stays_as_it_is_for_the_first_attempt_only() -> None:
    assert numbered_job_id("digits", 1) == "digits"
    assert numbered_job_id("digits", 3) == "digits_3"
    assert JOB_ID.fullmatch(numbered_job_id("d" * 128, 12))


@given(st.text(max_size=300))
def test_every_text_becomes_a_label_value_that_the_api_accepts(text: str) -> None:
    value = label_value(text)

    assert len(value) <= 63
    assert all(c in "abcdefghijklmnopqrstuvwxyz0123456789_-" for c in value)


def test_long_run_ids_with_the_same_beginning_get_different_labels() -> None:
    assert label_value("r" * 100 + "1") != label_value("r" * 100 + "2")
