"""What a rescheduled wait finds of what it has seen before."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from container_training.runtime.watch_memory import remember, remembered_watch
from container_training.work.waiting.job_watch import JobWatch
from training_api.states import JobState


def make_context(store: Any, try_number: int = 1) -> Any:
    return {"ti": SimpleNamespace(try_number=try_number), "task_state_store": store}


class Store(dict[str, Any]):
    """A task's state store."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value


def test_a_process_of_the_same_try_goes_on_and_that_of_a_new_try_begins_anew() -> None:
    store = Store(other="of the task")
    seen = JobWatch("digits_1", state=JobState.RUNNING, since=datetime(2026, 11, 20, tzinfo=UTC))

    remember(seen, make_context(store))

    assert remembered_watch("digits_1", None, make_context(store)).to_json() == seen.to_json()
    assert remembered_watch("digits_1", None, make_context(store, try_number=2)).state is None


def test_without_a_store_every_process_begins_anew() -> None:
    remember(JobWatch("digits_1", state=JobState.RUNNING), make_context(None))

    assert remembered_watch("digits_1", None, make_context(None)).state is None
