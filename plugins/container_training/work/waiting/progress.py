"""What a wait reports between two states of a job: trials, and cost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from training_api.dialects.ml_v1.cost import Meter
from training_api.dialects.ml_v1.resources import Job
from training_api.dialects.ml_v1.trials import best_text, progress_line, study_result
from training_api.job.results import Cost, StudyResult
from training_api.states import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """
    The progress at one poll of a job.

    :param study: counts and the best trial, without the table; ``None`` for a job that does not tune.
    :param cost: ``None`` where no price is known.
    :param key: what the line is about; show the line when this changes, not at each poll.
    :param line: empty if there is nothing to show.
    """

    study: StudyResult | None
    cost: Cost | None
    key: str
    line: str


def look_at(job: Job, now: datetime, meter: Meter) -> Progress:
    """
    Return the progress of ``job``.

    Pure. A tuning job gets a line whenever a trial starts or ends; other jobs get one at each tenth of
    ``max_cost``. All jobs whose cost is known get one at their end.

    :raises InvalidPrice: there is a limit, and no price for a machine of the job.
    """
    cost = meter.cost(job, now)
    study = study_result(job, now, max_trials=0)
    money, tenth = meter.text(cost), _tenth(meter, cost)
    has_ended = job.state is not None and job.state.is_terminal
    if study is not None and job.training_output is not None:
        trials = progress_line(study)
        line = f"{trials}; {money}" if money else trials
        return Progress(study=study, cost=cost, key=f"{trials} {tenth} {has_ended}", line=line)
    is_worth_it = bool(money) and (tenth > 0 or has_ended)
    key = f"{tenth} {has_ended}" if is_worth_it else ""
    return Progress(study=study, cost=cost, key=key, line=money if is_worth_it else "")


def is_to_be_cancelled(job: Job, progress: Progress, meter: Meter) -> bool:
    """Whether ``job`` has reached its cost limit and is not ending yet. Pure."""
    return job.state in (JobState.PREPARING, JobState.RUNNING) and meter.is_spent(progress.cost)


def limit_text(job_id: str, progress: Progress, meter: Meter) -> str:
    """Return why a wait cancelled its job: the cost, the limit, and the best trial. Pure."""
    spent = meter.prices.show(progress.cost.total) if progress.cost else "an unknown amount"
    limit = meter.prices.show(meter.max_cost or 0.0)
    found = f"; {best_text(progress.study)}" if progress.study else ""
    return f"job {job_id!r} cost {spent}, which is at or above max_cost {limit}, and was cancelled{found}"


def _tenth(meter: Meter, cost: Cost | None) -> int:
    if meter.max_cost is None or cost is None:
        return 0
    return min(int(10 * cost.total / meter.max_cost), 10)
