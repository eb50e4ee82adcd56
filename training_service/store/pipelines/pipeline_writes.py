"""What is written of pipelines in the transactions that write their jobs."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from training_api.states import JobState
from training_service.model.pipelines import NewPipeline
from training_service.model.records import JobRecord
from training_service.store.database import to_us
from training_service.store.tables import models, pipelines


def insert_pipeline(connection: sa.Connection, job: JobRecord, pipeline: NewPipeline) -> None:
    """Write the pipeline of a new job."""
    connection.execute(
        sa.insert(pipelines).values(
            project=job.spec.project,
            location=job.spec.region,
            pipeline_id=pipeline.pipeline_id,
            request=dict(pipeline.request),
            job_uid=job.uid,
            job_id=job.spec.job_id,
            model_id=pipeline.model_id,
            model=dict(pipeline.model),
            created_us=to_us(job.created_at),
        )
    )


def end_pipeline(connection: sa.Connection, job: Any) -> None:
    """
    Write how a job has ended to its pipeline, if it has one, and the model that came of it.

    :param job: the job's row, as it is now.
    """
    ended = (
        sa.update(pipelines)
        .where(pipelines.c.job_uid == job.uid)
        .values(
            state=job.state,
            started_us=job.preparing_us,
            ended_us=job.ended_us,
            error_message=job.error_message,
            reason=job.reason,
        )
        .returning(pipelines)
    )
    row = connection.execute(ended).one_or_none()
    if row is not None and row.model_id and job.state == JobState.SUCCEEDED:
        values = {name: getattr(row, name) for name in ("project", "location", "pipeline_id", "model_id")}
        connection.execute(sa.insert(models).values(**values, model=row.model, created_us=row.ended_us))
