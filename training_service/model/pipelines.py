"""Pipelines: what asked for a job, and the model that comes of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from training_api.states import JobState
from training_service.model.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPipeline:
    """
    What a job is made for.

    :param request: as it was sent, in the canonical JSON of its dialect.
    :param model_id: the id of the model that is there once the job has succeeded; empty: none will be.
    :param model: this model, in the canonical JSON of the dialect.
    """

    pipeline_id: str
    request: Mapping[str, Any]
    model_id: str
    model: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRecord:
    """
    A pipeline, and how far its job is; of a job that was removed: how it ended.

    :param started_at: when the job left the queue.
    :param updated_at: when the job entered its newest timed state.
    :param reason: why the job did not succeed; ``None``: it is active, or did.
    """

    project: str
    location: str
    pipeline_id: str
    request: Mapping[str, Any]
    job_id: str
    model_id: str
    state: JobState
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    updated_at: datetime
    reason: Reason | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """
    A model, in the canonical JSON of its dialect.

    :param pipeline_id: the pipeline that has left it; empty: a client uploaded it.
    """

    project: str
    location: str
    model_id: str
    pipeline_id: str
    model: Mapping[str, Any]
    created_at: datetime
