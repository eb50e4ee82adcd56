"""The parts of upkeep, put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from container_engines.base import Engine
from training_api.job.image_ref import parse_image_ref
from training_service.model.clock import Clock, utc_now
from training_service.model.retention import Retention
from training_service.store.audit_store import AuditStore
from training_service.store.ended.ended_jobs import EndedJobs
from training_service.store.ended.ended_series import EndedSeries
from training_service.store.logs.log_store import LogStore
from training_service.store.pull_store import PullStore
from training_service.telemetry.metrics import Metrics
from training_service.upkeep.images import unused_images
from training_service.upkeep.keeper import Keeper
from training_service.upkeep.tasks import (
    free_space,
    old_audit,
    old_jobs,
    old_logs,
    old_series,
    renewed_limits,
    stray_folders,
)


@dataclass(frozen=True, slots=True)
class MetricFolders:
    """
    Where jobs have folders for their metrics.

    :param root: has a folder a job, by its uid.
    :param active: uids of the jobs and trials that have not ended.
    :param remove: removes the folder of a job.
    """

    root: Path
    active: Callable[[], Iterable[str]]
    remove: Callable[[str], None]


def build_keeper(
    database: sa.Engine,
    logs: LogStore,
    retention: Retention,
    *,
    engine: Engine,
    pulls: PullStore,
    kept_images: Iterable[str],
    folders: MetricFolders,
    metrics: Metrics,
    clock: Clock = utc_now,
) -> Keeper:
    """
    Return the keeper of a service.

    :param kept_images: images that stay, whoever uses them.
    """
    kept = {parse_image_ref(image).pullable for image in kept_images}
    return Keeper(
        {
            "jobs": old_jobs(EndedJobs(database), logs, retention, clock),
            "logs": old_logs(database, logs, retention, clock),
            "audit": old_audit(AuditStore(database), retention, clock),
            "series": old_series(EndedSeries(database), retention, clock),
            "metric_folders": stray_folders(folders.root, folders.active, folders.remove),
            "images": unused_images(engine, pulls, total_bytes=retention.image_bytes, keep=kept),
            "space": free_space(database),
            "limits": renewed_limits(engine),
        },
        on_removed=metrics.count_removed,
        on_error=lambda task: metrics.upkeep_errors.labels(task).inc(),
    )
