"""One job as its page shows it: what it ran, its trials, and why it ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from training_api.dialects.ml_v1.cost import PriceList
from training_api.dialects.ml_v1.job_rows import JobDetail, JobRow
from training_api.dialects.ml_v1.trials import best_trial
from training_api.errors import InvalidPrice
from training_api.fleet.explanations import explain
from training_api.fleet.job_detail import trial_rows
from training_api.fleet.wire import Span, SpanKind
from training_api.job.tuning.trial_spec import trial_output_dir
from training_api.wire import format_timestamp


def explanation_view(row: JobRow) -> dict[str, str] | None:
    """Return why a job failed or was cancelled, in words; ``None`` where it did neither."""
    explanation = explain(row.state, row.reason)
    return asdict(explanation) if explanation else None


def images_view(job: JobDetail, spans: Sequence[Span]) -> list[dict[str, str | None]]:
    """
    Return the images of the pools: ``[{"pool", "uri", "pinned"}]``.

    :param spans: what took the job's time; ``pinned`` is the image by digest that a pull gave.
    """
    pulled = {span.name: span.pinned or None for span in spans if span.kind is SpanKind.PULL}
    return [
        {
            "pool": pool.name,
            "uri": pool.image,
            "pinned": pool.image if "@sha256:" in pool.image else pulled.get(pool.image),
        }
        for pool in job.pools
    ]


def trials_view(job: JobDetail, now: datetime, prices: PriceList) -> dict[str, Any] | None:
    """Return the trials of a tuning job as a table, best marked; ``None`` for any other job."""
    study = job.study
    if study is None:
        return None
    try:
        rate = prices.cost_per_second(job.job.training_input)
    except InvalidPrice:
        rate = None
    rows = trial_rows(job.trials, now, rate)
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


def results_folder(job: JobDetail, now: datetime) -> str:
    """
    Return the folder of the job's results, or of its best trial's.

    Empty if there is none yet.
    """
    folder = job.output_dir.rstrip("/")
    if not folder or job.study is None:
        return folder
    best = best_trial(trial_rows(job.trials, now), job.study.goal)
    return trial_output_dir(folder, best.trial_id) if best else ""


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
