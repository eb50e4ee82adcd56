"""What a rescheduled wait has seen of its job, kept in the task's state store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from container_training.work.waiting.job_watch import JobWatch
from training_api.dialects.ml_v1.cost import Meter

if TYPE_CHECKING:
    from airflow.sdk import Context

_KEY = "job_watch"


def remembered_watch(job_id: str, meter: Meter | None, context: Context) -> JobWatch:
    """Return what this try of the task has seen before it was rescheduled, or a new watch."""
    store: Any = context.get("task_state_store")
    stored = store.get(_KEY) if store else None
    # A new attempt has a log of its own, which begins anew.
    is_ours = isinstance(stored, dict) and stored.get("try_number") == context["ti"].try_number
    return JobWatch.from_json(job_id, cast(Any, stored)["watch"] if is_ours else None, meter)


def remember(watch: JobWatch, context: Context) -> None:
    """Keep what was seen for the next process of this try; nothing where Airflow has no store."""
    store: Any = context.get("task_state_store")
    if store is not None:
        store.set(_KEY, {"try_number": context["ti"].try_number, "watch": dict(watch.to_json())})
