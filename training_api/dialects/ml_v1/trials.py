"""The trials of a tuning job as a table: hyperparameters, outcome, and which is the best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime

from training_api.dialects.ml_v1.resources import HyperparameterOutput, Job
from training_api.dialects.ml_v1.search import study_from_wire
from training_api.job.results import BestTrial, StudyResult, TrialRow
from training_api.job.tuning.search_terms import Goal
from training_api.job.tuning.study_spec import StudySpec
from training_api.job.tuning.trial_spec import hyperparameter_args, trial_output_dir
from training_api.states import JobState


def study_of(job: Job) -> StudySpec | None:
    """Return the study of a tuning job, ``None`` for any other job. Pure."""
    search = job.training_input.hyperparameters if job.training_input else None
    return study_from_wire(search) if search else None


def trial_rows(job: Job, now: datetime, cost_per_second: float | None = None) -> list[TrialRow]:
    """
    Return a row a trial that the service shows, by number.

    Pure.

    :param cost_per_second: of all replicas of one trial together.
    """
    shown = (job.training_output.trials if job.training_output else None) or []
    rows = [_row(trial, now, cost_per_second) for trial in shown]
    return sorted(rows, key=lambda row: trial_number(row.trial_id))


def trial_seconds(trial: HyperparameterOutput, now: datetime) -> float | None:
    """Return how long ``trial`` has run, ``None`` before it starts. Pure."""
    if trial.start_time is None:
        return None
    return max(((trial.end_time or now) - trial.start_time).total_seconds(), 0.0)


def trial_number(trial_id: str) -> tuple[int, str]:
    """Return a key that sorts ids as the service gives them: 1, 2, 10; other ids come last."""
    return (int(trial_id), "") if trial_id.isdecimal() else (2**63, trial_id)


def best_trial(rows: Iterable[TrialRow], goal: Goal) -> TrialRow | None:
    """
    Return the trial with the best objective, ``None`` while there is none.

    Among equal ones the earlier.

    Pure. Trials that failed, were cancelled or still run do not count, whatever they reported.
    """
    best: TrialRow | None = None
    for row in rows:
        if row.is_done and row.objective is not None and (best is None or is_better(row, best, goal)):
            best = row
    return best


def is_better(row: TrialRow, other: TrialRow, goal: Goal) -> bool:
    """Whether ``row`` is strictly better; both have an objective."""
    ours, theirs = row.objective or 0.0, other.objective or 0.0
    return ours < theirs if goal is Goal.MINIMIZE else ours > theirs


def study_result(
    job: Job, now: datetime, cost_per_second: float | None = None, *, max_trials: int = 1000
) -> StudyResult | None:
    """
    Return what is known of the study of ``job`` now; ``None`` if it is no tuning job.

    Pure.

    :param max_trials: rows of the table; of more the best ones are kept.
    """
    study = study_of(job)
    if study is None:
        return None
    return result_of(
        study,
        trial_rows(job, now, cost_per_second),
        # A service may count what it does not list.
        counted=(job.training_output.completed_trial_count if job.training_output else None) or 0,
        job_dir=(job.training_input.job_dir if job.training_input else None) or "",
        max_trials=max_trials,
    )


def result_of(
    study: StudySpec, rows: Sequence[TrialRow], *, counted: int = 0, job_dir: str = "", max_trials: int = 1000
) -> StudyResult:
    """
    Return what a study has found. Pure.

    :param counted: completed trials, those that ``rows`` lacks included; 0: nobody counted them.
    :param job_dir: the folder of the tuning job; empty: it has none.
    :param max_trials: as above.
    """
    done = [row for row in rows if row.is_done]
    return StudyResult(
        goal=study.goal,
        metric_tag=study.metric_tag,
        max_trials=study.max_trials,
        completed=max(len(done), counted),
        stopped_early=sum(row.is_stopped_early for row in done),
        running=sum(not row.state.is_terminal for row in rows),
        failed=sum(row.state is JobState.FAILED and not row.is_done for row in rows),
        cancelled=sum(row.state is JobState.CANCELLED and not row.is_done for row in rows),
        best=_best(job_dir, best_trial(rows, study.goal)),
        trials=_best_rows(rows, study.goal, max_trials),
        trials_left_out=max(len(rows) - max_trials, 0),
    )


def progress_line(study: StudyResult) -> str:
    """
    Return one line on the progress of the trials. Pure.

    ``trials: 12 done, 4 running, 1 failed of 50; best accuracy 0.981 (trial 7)``.
    """
    done = f"{study.completed} done"
    if study.stopped_early:
        done += f" ({study.stopped_early} stopped early)"
    parts = [done, f"{study.running} running", f"{study.failed} failed"]
    if study.cancelled:
        parts.append(f"{study.cancelled} cancelled")
    return f"trials: {', '.join(parts)} of {study.max_trials}; {best_text(study)}"


def best_text(study: StudyResult) -> str:
    """Return ``best accuracy 0.981 (trial 7)``. Pure."""
    if study.best is None:
        return f"no {study.metric_tag} yet"
    return f"best {study.metric_tag} {study.best.objective:.6g} (trial {study.best.trial_id})"


def trial_line(row: TrialRow) -> str:
    """Return ``trial 7: 0.981 at step 30, SUCCEEDED, 12.3 s, lr=0.01 units=64``. Pure."""
    result = "no result" if row.objective is None else f"{row.objective:.6g}"
    step = f" at step {row.step}" if row.objective is not None and row.step is not None else ""
    state = f"{row.state}, stopped early" if row.is_stopped_early else row.state.value
    seconds = "not started" if row.seconds is None else f"{row.seconds:.1f} s"
    given = " ".join(f"{name}={value}" for name, value in row.hyperparameters.items())
    return f"trial {row.trial_id}: {result}{step}, {state}, {seconds}, {given}"


def _best(job_dir: str, row: TrialRow | None) -> BestTrial | None:
    if row is None or row.objective is None:
        return None
    return BestTrial(
        trial_id=row.trial_id,
        objective=row.objective,
        step=row.step,
        hyperparameters=row.hyperparameters,
        args=list(hyperparameter_args(row.hyperparameters)),
        job_dir=trial_output_dir(job_dir, row.trial_id) if job_dir else "",
    )


def _best_rows(rows: Sequence[TrialRow], goal: Goal, limit: int) -> list[TrialRow]:
    sign = 1.0 if goal is Goal.MINIMIZE else -1.0

    def rank(row: TrialRow) -> tuple[bool, float]:
        return (not row.is_done or row.objective is None, sign * (row.objective or 0.0))

    kept = sorted(rows, key=rank)[:limit]
    return sorted(kept, key=lambda row: trial_number(row.trial_id))


def _row(trial: HyperparameterOutput, now: datetime, cost_per_second: float | None) -> TrialRow:
    metric = trial.final_metric
    objective = metric.objective_value if metric else None
    seconds = trial_seconds(trial, now)
    return TrialRow(
        trial_id=trial.trial_id or "",
        state=trial.state or JobState.QUEUED,
        is_stopped_early=bool(trial.is_trial_stopped_early),
        objective=objective if objective is not None and math.isfinite(objective) else None,
        step=metric.training_step if metric else None,
        seconds=seconds,
        ended_at=trial.end_time,
        hyperparameters=dict(trial.hyperparameters or {}),
        cost=None if cost_per_second is None else (seconds or 0.0) * cost_per_second,
    )
