"""
What upkeep removes, each kind as a task of bounded steps.

A task yields the kind and the number of what went after each step, so that its caller may pause, or stop, in
between. A task that is stopped anywhere is simply run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from container_engines.base import Engine
from training_service.model.clock import Clock
from training_service.model.retention import Retention
from training_service.store.audit_store import AuditStore
from training_service.store.compaction import give_back
from training_service.store.ended.ended_jobs import Choice, EndedJob, EndedJobs
from training_service.store.ended.ended_series import START, EndedSeries
from training_service.store.logs.log_sizes import moment_beyond
from training_service.store.logs.log_store import LogStore

#: What went, and how many of it.
Step = tuple[str, int]
Task = Callable[[], Iterator[Step]]
#: Entries that one transaction removes at most.
_STEP_ENTRIES = 2000


def remove_jobs(ended: EndedJobs, logs: LogStore, choice: Choice) -> Iterator[Step]:
    """Remove the jobs of ``choice`` that may go, with their belongings, and its pipelines."""
    for batch in ended.batches(choice):
        yield from remove_batch(ended, logs, batch)
    yield from ended.remove_pipelines(choice)


def remove_batch(ended: EndedJobs, logs: LogStore, batch: Sequence[EndedJob]) -> Iterator[Step]:
    """Remove some jobs with all that belongs to them."""
    yield from ended.remove_belongings(batch)
    for job in batch:
        yield "log_entries", logs.remove(job.project, job.job_id)
    yield "jobs", ended.remove_rows(batch)


def old_jobs(ended: EndedJobs, logs: LogStore, retention: Retention, clock: Clock) -> Task:
    """Return the removal of jobs that ended too long ago."""

    def task() -> Iterator[Step]:
        if retention.jobs:
            yield from remove_jobs(ended, logs, Choice(ended_before=clock() - retention.jobs))

    return task


def old_logs(database: sa.Engine, logs: LogStore, retention: Retention, clock: Clock) -> Task:
    """Return the removal of log entries that are too old, or too many."""

    def task() -> Iterator[Step]:
        if retention.logs:
            yield from _entries_before(logs, clock() - retention.logs)
        if retention.log_bytes and (moment := moment_beyond(database, retention.log_bytes)):
            yield from _entries_before(logs, moment)

    return task


def _entries_before(logs: LogStore, moment: datetime) -> Iterator[Step]:
    while count := logs.remove_before(moment, _STEP_ENTRIES):
        yield "log_entries", count


def old_audit(audit: AuditStore, retention: Retention, clock: Clock) -> Task:
    """Return the removal of entries of the audit log that are too old, or too many."""

    def task() -> Iterator[Step]:
        before = clock() - retention.logs if retention.logs else None
        while count := audit.remove_before(before, _STEP_ENTRIES):
            yield "audit_entries", count

    return task


def old_series(series: EndedSeries, retention: Retention, clock: Clock) -> Task:
    """Return the thinning of measurements and use; what has been thinned is not looked at again."""
    done = START

    def task() -> Iterator[Step]:
        nonlocal done
        while retention.series:
            uids, place = series.next_batch(done, clock() - retention.series)
            if not uids:
                return
            yield from series.thin(uids)
            done = place
            yield "looked_at", 0

    return task


def stray_folders(root: Path, active: Callable[[], Iterable[str]], remove: Callable[[str], None]) -> Task:
    """
    Return the removal of the metric folders of jobs that have ended.

    :param root: where each job has a folder by its uid.
    :param active: uids of the jobs and trials that have not ended.
    :param remove: removes the folder of a job.
    """

    def task() -> Iterator[Step]:
        # Folders are listed before the jobs are read: a folder that is made in between is not among them.
        found = [path.name for path in root.iterdir()] if root.is_dir() else []
        keep = set(active()) if found else set()
        for name in found:
            if name not in keep:
                remove(name)
                yield "metric_folders", 1

    return task


def renewed_limits(engine: Engine) -> Task:
    """Return the renewal of the containers' limits, which others may have removed."""

    def task() -> Iterator[Step]:
        engine.confine()
        yield "limits", 0

    return task


def free_space(database: sa.Engine) -> Task:
    """Return the step that gives the space of removed rows back to the disk."""

    def task() -> Iterator[Step]:
        for pages in give_back(database):
            yield "pages", pages

    return task
