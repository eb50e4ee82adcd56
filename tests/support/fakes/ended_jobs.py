"""Jobs that have ended, with something of every kind that can belong to a job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from tests.support.fakes.studies import TAG, search
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.fleet.wire import SpanKind
from training_api.job.tuning.measurement import Report
from training_api.states import TERMINAL, JobState
from training_service.model.records import JobRecord
from training_service.store.database import to_us, writing
from training_service.store.measurement_store import Measurement
from training_service.store.refusal_store import RefusalStore, StoredRefusal
from training_service.store.span_store import NewSpan
from training_service.store.tables import (
    gpu_samples,
    jobs,
    log_jobs,
    log_lines,
    log_streams,
    measurements,
    policies,
    refusals,
    spans,
    usage_samples,
)
from training_service.store.usage_store import UsageSample, UsageStore

#: Reports, and samples of use, of each job and trial.
REPORTS = 3
CHILDREN = (measurements, usage_samples, gpu_samples, spans, refusals)


def end_job(
    world: World,
    job_id: str = "job",
    *,
    days_ago: float = 100,
    state: JobState = JobState.SUCCEEDED,
    project: str = PROJECT,
    labels: dict[str, str] | None = None,
    trials: int = 0,
    **training_input: Any,
) -> JobRecord:
    """Store a job that ended so long ago; with ``trials`` it is a tuning job."""
    fields: dict[str, Any] = {"master_config": ReplicaConfig(image_uri=IMAGE)}
    if trials:
        fields["hyperparameters"] = search()
    training = TrainingInput(**(fields | training_input))
    world.jobs.create(
        project, Job(job_id=job_id, labels=labels, training_input=training), owner="user:a@example.com"
    )
    record = world.store.get(project, job_id)
    for number in range(1, trials + 1):
        assert world.add_trial(record, number, {"lr": "0.5"})
    ended_us = to_us(world.engine.now - timedelta(days=days_ago))
    with writing(world.database).begin() as connection:
        own = sa.or_(jobs.c.uid == record.uid, jobs.c.study_uid == record.uid)
        uids = connection.execute(sa.select(jobs.c.uid).where(own)).scalars().all()
        connection.execute(sa.update(jobs).where(own).values(state=state.value, ended_us=ended_us))
    for uid in uids:
        add_belongings(world, uid)
    return world.store.get(project, job_id)


def add_belongings(world: World, uid: str) -> None:
    """Give a job, or a trial, reports, use, a refusal and a run."""
    now = world.engine.now
    world.measurements.append(
        [
            Measurement(
                job_uid=uid,
                source="0.0",
                sequence=place,
                report=Report(tag=TAG, step=place, value=float(place), reported_us=to_us(now)),
            )
            for place in range(REPORTS)
        ]
    )
    UsageStore(world.database).append(
        [
            UsageSample(
                job_uid=uid,
                task_name="master-replica-0",
                sampled_at=now + timedelta(seconds=place),
                cpu_cores=1.0,
                memory_bytes=1,
                gpus=0.5,
                gpu_memory_bytes=1,
            )
            for place in range(REPORTS)
        ]
    )
    RefusalStore(world.database).write(
        StoredRefusal(
            job_uid=uid,
            work="pull",
            lasted=timedelta(seconds=1),
            last_at=now,
            reasons=frozenset({"a reason"}),
        )
    )
    world.spans.put(NewSpan(job_uid=uid, kind=SpanKind.RUN, name="master-replica-0", started_at=now))


def count(database: sa.Engine, table: sa.Table) -> int:
    with database.connect() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0


def job_ids(database: sa.Engine) -> list[str]:
    """Return the ids of all jobs, without trials."""
    with database.connect() as connection:
        query = sa.select(jobs.c.job_id).where(jobs.c.study_uid == "").order_by(jobs.c.job_id)
        return list(connection.execute(query).scalars())


def orphaned_rows(database: sa.Engine) -> dict[str, int]:
    """Return how many rows of each kind belong to no job that is there."""
    owner, study = jobs.alias("owner"), jobs.alias("study")
    orphans: dict[str, sa.Select[Any]] = {
        table.name: sa.select(table.c.job_uid).where(table.c.job_uid.not_in(sa.select(owner.c.uid)))
        for table in CHILDREN
    }
    orphans["trials"] = sa.select(jobs.c.uid).where(
        jobs.c.study_uid != "", jobs.c.study_uid.not_in(sa.select(study.c.uid))
    )
    is_orphaned = sa.tuple_(log_jobs.c.project, log_jobs.c.job_id).not_in(
        sa.select(owner.c.project, owner.c.job_id)
    )
    orphans["log_jobs"] = sa.select(log_jobs.c.id).where(is_orphaned)
    kept = sa.select(log_jobs.c.id).where(~is_orphaned)
    for table in (log_streams, log_lines):
        orphans[table.name] = sa.select(table.c.log_job).where(table.c.log_job.not_in(kept))
    name = "projects/" + owner.c.project + "/jobs/" + owner.c.job_id
    orphans["policies"] = sa.select(policies.c.resource).where(policies.c.resource.not_in(sa.select(name)))
    with database.connect() as connection:
        found = {kind: len(connection.execute(query).all()) for kind, query in orphans.items()}
    return {kind: number for kind, number in found.items() if number}


def active_states() -> list[JobState]:
    return [state for state in JobState if state not in TERMINAL]
