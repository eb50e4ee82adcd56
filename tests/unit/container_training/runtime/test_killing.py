"""Why a task was stopped, as Airflow's database tells."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from container_training.runtime import killing
from container_training.runtime.killing import TaskFate, fate_in_signal_handler, fate_of
from tests.support.speed import scaled


@pytest.mark.parametrize(
    ("states", "fate"),
    [
        ({"wait": "failed"}, TaskFate.ENDED),
        ({}, TaskFate.ENDED),
        ({"wait": "success", "collect": None}, TaskFate.DONE),
        ({"wait": "success", "collect": "scheduled", "report": "skipped"}, TaskFate.DONE),
        ({"wait": "success", "collect": "upstream_failed"}, TaskFate.LAST_DONE),
        ({"wait": "success"}, TaskFate.LAST_DONE),
        ({"wait": "restarting"}, TaskFate.RESTARTED),
        ({"wait": None}, TaskFate.REPEATED),
        ({"wait": "scheduled"}, TaskFate.REPEATED),
        ({"wait": "deferred"}, TaskFate.REPEATED),
        ({"wait": "running"}, TaskFate.REPEATED),
    ],
)
def test_the_tasks_state_tells_why_it_was_stopped(
    monkeypatch: pytest.MonkeyPatch, states: dict[str, str | None], fate: TaskFate
) -> None:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", lambda **_: {"run": states} if states else {})

    assert fate_of(make_task_instance()) is fate


def test_the_state_of_a_mapped_task_is_found_by_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    states = {"run": {"wait_3": "failed", "wait_2": "running"}}
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", lambda **_: states)

    assert fate_of(make_task_instance(map_index=3)) is TaskFate.ENDED
    assert fate_of(make_task_instance(map_index=2)) is TaskFate.REPEATED


def make_task_instance(map_index: int = -1) -> Any:
    return SimpleNamespace(dag_id="dag", task_id="wait", run_id="run", map_index=map_index)


def test_nobody_knows_the_fate_of_no_task() -> None:
    assert fate_of(None) is TaskFate.UNKNOWN


@pytest.mark.parametrize("error", [OSError("pipe"), EOFError("supervisor gone")])
def test_a_supervisor_that_does_not_answer_leaves_the_fate_unknown(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    def fail(**_: Any) -> None:
        raise error

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", fail)

    assert fate_of(make_task_instance()) is TaskFate.UNKNOWN


def test_the_other_tasks_of_a_run_are_looked_at_only_if_they_count(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    asked: list[bool] = []

    def states(**which: Any) -> dict[str, Any]:
        asked.append("task_ids" in which)
        return {"run": {"wait": "failed", "collect": None}}

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", states)

    fate_of(make_task_instance())

    assert asked == [True]


def test_a_signal_handler_does_not_wait_for_a_supervisor_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    may_answer = threading.Event()

    def hang(_: Any) -> TaskFate:
        may_answer.wait()
        return TaskFate.ENDED

    monkeypatch.setattr(killing, "fate_of", hang)
    monkeypatch.setattr(killing, "_FATE_SECONDS", 0.01)

    try:
        assert fate_in_signal_handler(make_task_instance()) is TaskFate.UNKNOWN
    finally:
        may_answer.set()


def test_a_signal_handler_gets_the_fate_that_is_there_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killing, "fate_of", lambda _: TaskFate.RESTARTED)
    monkeypatch.setattr(killing, "_FATE_SECONDS", scaled(60))

    assert fate_in_signal_handler(make_task_instance()) is TaskFate.RESTARTED
