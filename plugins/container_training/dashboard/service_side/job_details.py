"""One job as its page shows it: its request, what it ran, and why it ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from training_api.dialects.ml_v1.cost import PriceList
from training_api.dialects.ml_v1.job_rows import JobRow
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.dialects.ml_v1.roles import ROLES
from training_api.dialects.ml_v1.trials import best_trial, study_of, trial_rows
from training_api.errors import InvalidImageRef, InvalidPrice
from training_api.fleet.explanations import explain
from training_api.fleet.wire import Span, SpanKind
from training_api.job.image_ref import parse_image_ref
from training_api.job.python_package import runtime_image
from training_api.job.tuning.trial_spec import trial_output_dir
from training_api.wire import format_timestamp


def explanation_view(row: JobRow) -> dict[str, str] | None:
    """Return why a job failed or was cancelled, in words; ``None`` where it did neither."""
    explanation = explain(row.state, row.reason)
    return asdict(explanation) if explanation else None


def images_view(job: Job, spans: Sequence[Span]) -> list[dict[str, str | None]]:
    """
    Return the images of the roles: ``[{"role", "uri", "pinned"}]``.

    :param spans: what took the job's time; ``pinned`` is the image by digest that a pull gave.
    """
    training = job.training_input or TrainingInput()
    pulled = {span.name: span.pinned or None for span in spans if span.kind is SpanKind.PULL}
    found = []
    for role in ROLES:
        config = role.config_of(training)
        if config and config.image_uri:
            uri = config.image_uri
            pinned = uri if "@sha256:" in uri else pulled.get(_pulled_name(uri))
            found.append({"role": role.title, "uri": uri, "pinned": pinned})
    if not found and training.runtime_version:
        uri = f"runtime version {training.runtime_version}"
        name = str(runtime_image(training.runtime_version))
        found.append({"role": "master", "uri": uri, "pinned": pulled.get(name)})
    return found


def _pulled_name(uri: str) -> str:
    """Return the name under which the service pulls an image; empty if it would not."""
    try:
        return str(parse_image_ref(uri))
    except InvalidImageRef:
        return ""


_SET_BY_THE_SERVICE = (
    "create_time",
    "start_time",
    "end_time",
    "state",
    "error_message",
    "etag",
    "job_position",
    "training_output",
)


def request_view(job: Job) -> dict[str, Any]:
    """Return the job as it was requested, in the API's form."""
    return job.model_copy(update=dict.fromkeys(_SET_BY_THE_SERVICE)).to_wire()


def trials_view(job: Job, now: datetime, prices: PriceList) -> dict[str, Any] | None:
    """Return the trials of a tuning job as a table, best marked; ``None`` for any other job."""
    study = study_of(job)
    if study is None:
        return None
    try:
        rate = prices.cost_per_second(job.training_input or TrainingInput())
    except InvalidPrice:
        rate = None
    rows = trial_rows(job, now, rate)
    best = best_trial(rows, study.goal)
    given = dict.fromkeys(name for row in rows for name in row.hyperparameters)
    return {
        "metric": study.metric_tag,
        "goal": study.goal,
        "most": study.max_trials,
        "best": best.trial_id if best else None,
        "parameters": list(given),
        "currency": prices.currency if rate is not None else None,
        "trials": [
            {
                "id": row.trial_id,
                "state": row.state,
                "isStoppedEarly": row.is_stopped_early,
                "objective": row.objective,
                "step": row.step,
                "seconds": row.seconds,
                "endTime": format_timestamp(row.ended_at) if row.ended_at else None,
                "cost": row.cost,
                "parameters": row.hyperparameters,
            }
            for row in rows
        ],
    }


def results_folder(job: Job, now: datetime) -> str:
    """
    Return the folder of the job's results, or of its best trial's.

    Empty if there is none yet.
    """
    job_dir = ((job.training_input and job.training_input.job_dir) or "").rstrip("/")
    study = study_of(job)
    if not job_dir or study is None:
        return job_dir
    best = best_trial(trial_rows(job, now), study.goal)
    return trial_output_dir(job_dir, best.trial_id) if best else ""


def person_view(run: Mapping[str, str] | None) -> str | None:
    """
    Return who had the DAG run made, for people; ``None``: nobody knows.

    :param run: ``type`` and ``user`` of the run, as Airflow has them.
    """
    if not run:
        return None
    ways = {
        "scheduled": "by its schedule",
        "backfill": "by a backfill",
        "asset_triggered": "by new data",
        "operator_triggered": "by another DAG",
    }
    way = ways.get(run.get("type", ""), "by hand")
    return f"{way}, {run['user']}" if run.get("user") else way
