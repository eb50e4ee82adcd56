"""What a finished job left: the small typed value that the last task of a pipeline hands on."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, JsonValue

from container_training.core.states import JobState


class ResultModel(BaseModel):
    """Immutable, strict about unknown fields, JSON-able by ``model_dump(mode="json")``."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StateSeconds(ResultModel):
    """Seconds spent in each state; ``total`` runs from creation to the end."""

    queued: float
    preparing: float
    running: float
    total: float


class ResultFile(ResultModel):
    """One object below the job directory; ``crc32c`` is base64, as Cloud Storage gives it."""

    uri: str
    size_bytes: int
    crc32c: str


class JobResult(ResultModel):
    """
    The result of one job.

    :param image: the image by digest, ``HOST/REPOSITORY@sha256:...``.
    :param metrics: the contents of the metrics file, a JSON object.
    :param model_uri: the job directory's model, if the trainer wrote one.
    """

    job_id: str
    state: JobState
    image: str
    job_dir: str
    metrics: dict[str, JsonValue]
    model_uri: str | None
    files: list[ResultFile]
    seconds: StateSeconds


class StateTimes(ResultModel):
    """When a job entered each state; ``None`` where it never did."""

    queued_at: datetime
    preparing_at: datetime | None
    running_at: datetime | None
    ended_at: datetime

    def seconds(self) -> StateSeconds:
        """Return the time in each state; a state that was skipped counts 0."""
        preparing_at = self.preparing_at or self.running_at or self.ended_at
        running_at = self.running_at or self.ended_at
        return StateSeconds(
            queued=_between(self.queued_at, preparing_at),
            preparing=_between(preparing_at, running_at),
            running=_between(running_at, self.ended_at),
            total=_between(self.queued_at, self.ended_at),
        )


def _between(start: datetime, end: datetime) -> float:
    return round(max((end - start).total_seconds(), 0.0), 3)
