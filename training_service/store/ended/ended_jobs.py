"""
Jobs that have ended, and their removal in steps that survive a kill.

A job's belongings are removed first, its row last. So what a kill leaves behind still has an owner, by which
the next removal finds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from training_api.job.labels import DAG_LABEL, MODEL_LABEL
from training_api.states import TERMINAL, JobState
from training_service.model.resources import job_resource
from training_service.store.database import REMOVED_JOBS, to_us, writing
from training_service.store.jobs.stored_spec import mapping_of
from training_service.store.tables import (
    counters,
    gpu_samples,
    is_job,
    is_trial,
    jobs,
    measurements,
    pipelines,
    policies,
    refusals,
    spans,
    usage_samples,
)

#: For each pair of DAG and model, this many of the newest jobs that SUCCEEDED are kept, whatever their age.
KEPT_SUCCESSES = 3
#: Jobs that are removed side by side.
BATCH_JOBS = 50
#: Rows that one transaction removes at most.
STEP_ROWS = 2000
_RESUMES = jobs.c.spec[("study", "resume_job_id")].as_string()
#: What belongs to a job by its uid, and the key by which rows of it are removed.
_CHILDREN: tuple[tuple[sa.Table, tuple[sa.Column[Any], ...]], ...] = (
    (measurements, (measurements.c.id,)),
    (usage_samples, (usage_samples.c.id,)),
    (gpu_samples, (gpu_samples.c.job_uid, gpu_samples.c.task_name, gpu_samples.c.sampled_us)),
    (spans, (spans.c.id,)),
    (refusals, (refusals.c.job_uid, refusals.c.work)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """What names a job that has ended."""

    uid: str
    project: str
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """
    Which jobs.

    :param ended_before: only jobs that ended before.
    :param project: empty: all.
    :param states: only jobs that ended in one of these; empty: in any.
    """

    ended_before: datetime
    project: str = ""
    states: frozenset[JobState] = frozenset()


class EndedJobs:
    """Finds and removes jobs that have ended; safe for threads, and beside other processes."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def batches(self, choice: Choice) -> Iterator[list[EndedJob]]:
        """
        Yield the jobs of ``choice`` that may go, those that ended first first.

        These are kept: of each DAG and model (labels of jobs) the newest ``KEPT_SUCCESSES`` jobs that
        SUCCEEDED; tuning jobs that another job resumes (``resumePreviousJobId``); and jobs with an active
        trial.
        """
        kept = self._kept_successes()
        place = (-1, -1)
        while rows := self._ended_after(place, choice):
            place = (rows[-1].ended_us, rows[-1].sequence)
            resumed = self._resumed(rows)
            batch = [
                EndedJob(uid=row.uid, project=row.project, job_id=row.job_id)
                for row in rows
                if row.sequence not in kept and (row.project, row.job_id) not in resumed
            ]
            if batch:
                yield batch

    def has_active_trial(self, uid: str) -> bool:
        """Tell whether a trial of the job ``uid`` has not ended."""
        active = sa.exists().where(is_trial, jobs.c.study_uid == uid, jobs.c.state.not_in(sorted(TERMINAL)))
        with self._engine.connect() as connection:
            return bool(connection.scalar(sa.select(active)))

    def count_rows(self, batch: Sequence[EndedJob]) -> dict[str, int]:
        """Return how many rows of each kind belong to these jobs, without those of logs."""
        counts = {"jobs": len(batch)}
        with self._engine.connect() as connection:
            trials = sa.select(sa.func.count()).where(is_trial, jobs.c.study_uid.in_(_uids(batch)))
            counts["trials"] = connection.scalar(trials) or 0
            for table, _ in _CHILDREN:
                own = sa.select(sa.func.count()).where(table.c.job_uid.in_(_members(batch)))
                counts[table.name] = connection.scalar(own) or 0
        return counts

    def remove_belongings(self, batch: Sequence[EndedJob]) -> Iterator[tuple[str, int]]:
        """
        Remove what belongs to these jobs but their logs, then their trials.

        Yields the kind and the number of the rows after each transaction.
        """
        for table, key in _CHILDREN:
            some = sa.select(*key).where(table.c.job_uid.in_(_members(batch))).limit(STEP_ROWS)
            while count := self._remove(table, key, some):
                yield table.name, count
        key = (jobs.c.sequence,)
        some = sa.select(*key).where(is_trial, jobs.c.study_uid.in_(_uids(batch))).limit(STEP_ROWS)
        while count := self._remove(jobs, key, some):
            yield "trials", count

    def remove_rows(self, batch: Sequence[EndedJob]) -> int:
        """Remove the jobs' own rows, with their policies; call it last. Return how many there were."""
        # A job of the same name may come later: it must not find this one's policy.
        names = [job_resource(job.project, job.job_id) for job in batch]
        with writing(self._engine).begin() as connection:
            connection.execute(sa.delete(policies).where(policies.c.resource.in_(names)))
            ended = sa.and_(jobs.c.uid.in_(_uids(batch)), jobs.c.state.in_(sorted(TERMINAL)))
            removed = connection.execute(sa.delete(jobs).where(ended)).rowcount
            # What is gone leaves no other sign by which pages could tell that something changed.
            of_removals = sa.update(counters).where(counters.c.name == REMOVED_JOBS)
            connection.execute(of_removals.values(value=counters.c.value + removed))
            return removed

    def count_pipelines(self, choice: Choice) -> int:
        """Return how many pipelines ``remove_pipelines`` would remove."""
        with self._engine.connect() as connection:
            return connection.scalar(sa.select(sa.func.count()).where(_of_pipelines(choice))) or 0

    def remove_pipelines(self, choice: Choice) -> Iterator[tuple[str, int]]:
        """
        Remove the pipelines of ``choice``, whatever becomes of their jobs; their models stay.

        Yields the kind and the number of the rows after each transaction.
        """
        key = (pipelines.c.sequence,)
        while count := self._remove(
            pipelines, key, sa.select(*key).where(_of_pipelines(choice)).limit(STEP_ROWS)
        ):
            yield "pipelines", count

    def _remove(self, table: sa.Table, key: tuple[sa.Column[Any], ...], some: sa.Select[Any]) -> int:
        column = sa.tuple_(*key) if len(key) > 1 else key[0]
        with writing(self._engine).begin() as connection:
            return connection.execute(sa.delete(table).where(column.in_(some.correlate(None)))).rowcount

    def _ended_after(self, place: tuple[int, int], choice: Choice) -> Sequence[Any]:
        trial = jobs.alias("trial")
        going_on = sa.exists().where(
            trial.c.study_uid > sa.literal_column("''"),  # as ``is_trial`` does: so their index serves
            trial.c.study_uid == jobs.c.uid,
            trial.c.state.not_in(sorted(TERMINAL)),
        )
        query = (
            sa.select(
                jobs.c.sequence,
                jobs.c.uid,
                jobs.c.project,
                jobs.c.job_id,
                jobs.c.ended_us,
                jobs.c.spec,
            )
            .where(
                is_job,
                jobs.c.state.in_(sorted(choice.states or TERMINAL)),
                jobs.c.ended_us < to_us(choice.ended_before),
                sa.tuple_(jobs.c.ended_us, jobs.c.sequence) > sa.tuple_(*place),
                ~going_on,
            )
            .order_by(jobs.c.ended_us, jobs.c.sequence)
            .limit(BATCH_JOBS)
        )
        if choice.project:
            query = query.where(jobs.c.project == choice.project)
        with self._engine.connect() as connection:
            return connection.execute(query).all()

    def _kept_successes(self) -> frozenset[int]:
        dag, model = (jobs.c.labels[label].as_string() for label in (DAG_LABEL, MODEL_LABEL))
        age = sa.func.row_number().over(
            partition_by=(jobs.c.project, dag, model),
            order_by=(jobs.c.ended_us.desc(), jobs.c.sequence.desc()),
        )
        ranked = (
            sa.select(jobs.c.sequence, age.label("age"))
            .where(is_job, jobs.c.state == JobState.SUCCEEDED.value)
            # A job without labels belongs to no history.
            .where(sa.or_(dag.is_not(None), model.is_not(None)))
            .subquery()
        )
        with self._engine.connect() as connection:
            newest = sa.select(ranked.c.sequence).where(ranked.c.age <= KEPT_SUCCESSES)
            return frozenset(connection.execute(newest).scalars())

    def _resumed(self, rows: Sequence[Any]) -> set[tuple[str, str]]:
        """Return those of the rows' jobs, as project and id, that other jobs resume."""
        studies = [row.job_id for row in rows if mapping_of(row.spec).get("study")]
        if not studies:
            return set()
        query = sa.select(jobs.c.project, _RESUMES).where(is_job, _RESUMES.in_(studies))
        with self._engine.connect() as connection:
            return {(project, job_id) for project, job_id in connection.execute(query)}


def _uids(batch: Sequence[EndedJob]) -> list[str]:
    return [job.uid for job in batch]


def _members(batch: Sequence[EndedJob]) -> sa.CompoundSelect[Any]:
    """Select the uids of the jobs and of their trials."""
    uids = _uids(batch)
    trials = sa.select(jobs.c.uid).where(is_trial, jobs.c.study_uid.in_(uids))
    return sa.select(jobs.c.uid).where(jobs.c.uid.in_(uids)).union_all(trials)


def _of_pipelines(choice: Choice) -> sa.ColumnElement[bool]:
    return sa.and_(
        pipelines.c.ended_us < to_us(choice.ended_before),
        pipelines.c.state.in_(sorted(choice.states or TERMINAL)),
        *([pipelines.c.project == choice.project] if choice.project else []),
    )
