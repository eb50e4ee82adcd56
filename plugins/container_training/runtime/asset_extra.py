"""What the events of a task's assets say of the result that it collected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from container_training.airflow_internals.tasks import is_asset
from training_api.job.results import JobResult

if TYPE_CHECKING:
    from airflow.sdk import Context

_FIELDS = ("job_id", "job_url", "image", "metrics", "model_uri", "job_dir", "reused")


def describe_outlets(outlets: Iterable[Any], context: Context, result: JobResult) -> None:
    """Add what was made to the event of each asset among ``outlets``; other values there stay."""
    extra = result.model_dump(mode="json", include=set(_FIELDS))
    for outlet in outlets:
        if is_asset(outlet):
            context["outlet_events"][outlet].extra.update(extra)
