"""One job as its page shows it: what was asked for, what it ran, and why it ended as it did. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from training_api.dialects.ml_v1.log_wire import LogEntry
from training_api.dialects.ml_v1.resources import Job, TrainingInput, format_timestamp
from training_api.errors import InvalidPrice
from training_api.fleet.failure_causes import explain
from training_api.job.cost import PriceList
from training_api.job.roles import ROLES
from training_api.job.tuning.trial_spec import trial_job_dir
from training_api.job.tuning.trials import best_trial, study_of, trial_rows
from training_api.states import JobState

#: training_service/model/job_messages.py: the line that says which image, by digest, some replicas run.
_IMAGE_LINE = re.compile(r"^Image of (?P<who>.+) is (?P<image>\S+?),?(?: (?P<id>sha256:\S+?))?\.$")


def explanation_view(state: JobState, message: str | None, *, uses_packages: bool) -> dict[str, str] | None:
    """Return why a job, or a trial, failed or was cancelled, in words; ``None`` where it did neither."""
    explanation = explain(state, message, uses_packages=uses_packages)
    return asdict(explanation) if explanation else None


def uses_packages(job: Job) -> bool:
    """Whether the job installs Python packages in place of an image of its own."""
    return bool(job.training_input and job.training_input.package_uris)


def images_view(job: Job, service_lines: Sequence[LogEntry]) -> list[dict[str, str | None]]:
    """
    Return the images of the roles: ``[{"role", "uri", "pinned"}]``.

    :param service_lines: those of the service about images; ``pinned`` is the image by digest that was run, if they say so.
    """
    training = job.training_input or TrainingInput()
    run = dict(_run_images(service_lines))
    found = []
    for role in ROLES:
        config = role.config_of(training)
        if config and config.image_uri:
            name = re.sub(r"(@sha256:\w+|:[^/:]+)$", "", config.image_uri)
            pinned = config.image_uri if "@sha256:" in config.image_uri else run.get(name)
            found.append({"role": role.title, "uri": config.image_uri, "pinned": pinned})
    if not found and training.runtime_version:
        # A job of packages: the line names the runtime's image.
        image = next(iter(run.values()), None)
        found.append(
            {"role": "master", "uri": f"runtime version {training.runtime_version}", "pinned": image}
        )
    return found


def _run_images(lines: Iterable[LogEntry]) -> Iterable[tuple[str, str]]:
    for line in lines:
        match = _IMAGE_LINE.match(line.message)
        if match:
            image = match["image"] if not match["id"] else f"{match['image']}, {match['id']}"
            yield re.sub(r"(@sha256:\w+|:[^/:]+)$", "", match["image"]), image


def request_view(job: Job) -> dict[str, Any]:
    """Return the job as it was asked for, as the API has it."""
    asked = job.model_copy(
        update=dict.fromkeys(("create_time", "start_time", "end_time", "state", "error_message", "etag", "job_position", "training_output"))
    )  # fmt: skip
    return asked.to_wire()


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
    """Return the folder with the job's own results, that of the best trial of a tuning job; empty where there is none yet."""
    job_dir = ((job.training_input and job.training_input.job_dir) or "").rstrip("/")
    study = study_of(job)
    if not job_dir or study is None:
        return job_dir
    best = best_trial(trial_rows(job, now), study.goal)
    return trial_job_dir(job_dir, best.trial_id) if best else ""


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
