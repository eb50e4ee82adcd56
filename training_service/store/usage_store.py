"""Samples of what replicas use, in the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from training_api.fleet.wire import UsageSeries
from training_service.store.database import to_us, writing
from training_service.store.jobs.job_rows import trial_id_of
from training_service.store.tables import gpu_samples, is_of, jobs, usage_samples

_c = usage_samples.c


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSample:
    """One sample of one replica; ``cpu_cores`` is the average since the previous sample."""

    job_uid: str
    task_name: str
    sampled_at: datetime
    cpu_cores: float
    memory_bytes: int
    gpus: float | None = None
    gpu_memory_bytes: int | None = None


class UsageStore:
    """Reads and writes ``usage_samples``; safe for threads."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def append(self, samples: Sequence[UsageSample]) -> None:
        """Store ``samples`` in one transaction."""
        if not samples:
            return
        rows = [
            {**_key(sample), "cpu_cores": sample.cpu_cores, "memory_bytes": sample.memory_bytes}
            for sample in samples
        ]
        of_gpus = [
            {**_key(sample), "gpus": sample.gpus, "memory_bytes": sample.gpu_memory_bytes}
            for sample in samples
            if sample.gpus is not None
        ]
        with writing(self._engine).begin() as connection:
            connection.execute(sa.insert(usage_samples), rows)
            if of_gpus:
                connection.execute(sa.insert(gpu_samples), of_gpus)

    def of_job(self, job_uid: str) -> list[UsageSeries]:
        """Return a series for each replica of a job and of its trials, by first sample; no limits."""
        of_gpus = gpu_samples.c
        same_moment = sa.and_(
            of_gpus.job_uid == _c.job_uid,
            of_gpus.task_name == _c.task_name,
            of_gpus.sampled_us == _c.sampled_us,
        )
        query = (
            sa.select(
                usage_samples,
                jobs.c.study_uid,
                jobs.c.job_id,
                of_gpus.gpus,
                of_gpus.memory_bytes.label("gpu_memory_bytes"),
            )
            .join(jobs, jobs.c.uid == _c.job_uid)
            .outerjoin(gpu_samples, same_moment)
            .where(is_of(job_uid))
            .order_by(_c.id)
        )
        found: dict[tuple[str, str], UsageSeries] = {}
        with self._engine.connect() as connection:
            for row in connection.execute(query):
                trial_id = trial_id_of(row)
                series = found.setdefault(
                    (trial_id, row.task_name),
                    UsageSeries(replica=row.task_name, trial_id=trial_id),
                )
                series.times.append(row.sampled_us / 1e6)
                series.cpu_cores.append(row.cpu_cores)
                series.memory_bytes.append(row.memory_bytes)
                series.gpus.append(row.gpus)
                series.gpu_memory_bytes.append(row.gpu_memory_bytes)
        return list(found.values())


def _key(sample: UsageSample) -> dict[str, Any]:
    return {
        "job_uid": sample.job_uid,
        "task_name": sample.task_name,
        "sampled_us": to_us(sample.sampled_at),
    }
