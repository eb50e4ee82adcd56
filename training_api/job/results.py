"""What a finished job left: the small typed value that the last task of a pipeline hands on."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, JsonValue

from training_api.job.packages.pinned_uri import pinned
from training_api.job.tuning.search_terms import Goal
from training_api.states import JobState


class ResultModel(BaseModel):
    """Immutable, strict about unknown fields, JSON-able by ``model_dump(mode="json")``."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class StateSeconds(ResultModel):
    """Seconds spent in each state; ``total`` runs from creation to the end."""

    queued: float
    preparing: float
    running: float
    total: float


class ResultFile(ResultModel):
    """
    One object; of a job's result, one below the job directory.

    :param crc32c: base64, as Cloud Storage gives it.
    :param generation: number of this very content: it changes with every write, and is never used again.
    """

    uri: str
    size_bytes: int
    crc32c: str
    generation: int | None = None

    @property
    def pinned_uri(self) -> str:
        """``gs://BUCKET/NAME#GENERATION``: this content, and no later one."""
        return pinned(self.uri, self.generation)


class Cost(ResultModel):
    """
    What a job has cost.

    :param currency: that of the price list, as it is called there; may be empty.
    :param per_second: of all replicas of one run, of a tuning job of one trial.
    :param seconds: time of RUNNING that is paid for; of a tuning job that of all trials together.
    """

    total: float
    currency: str
    per_second: float
    seconds: float


class TrialRow(ResultModel):
    """
    One trial.

    :param objective: its final metric; ``None`` where it reported none, or no finite one.
    :param step: training step of that metric.
    :param seconds: from its start to its end, or to now; ``None`` before it starts.
    :param hyperparameters: name to value as text, as the trainer got it.
    :param cost: in the currency of the price list; ``None`` where no price is known.
    """

    trial_id: str
    state: JobState
    is_stopped_early: bool
    objective: float | None
    step: int | None
    seconds: float | None
    ended_at: datetime | None
    hyperparameters: dict[str, str]
    cost: float | None

    @property
    def is_done(self) -> bool:
        """Whether the trial ended with a result: by itself, or stopped early."""
        return self.state.is_terminal and (self.state is JobState.SUCCEEDED or self.is_stopped_early)


class BestTrial(ResultModel):
    """
    The trial that a tuning job was for.

    :param args: the arguments that train this configuration again.
    :param model_uri: its model; ``None`` if it wrote none, or nobody has looked.
    """

    trial_id: str
    objective: float
    step: int | None
    hyperparameters: dict[str, str]
    args: list[str]
    job_dir: str
    model_uri: str | None = None


class StudyResult(ResultModel):
    """
    What a tuning job found.

    :param completed: trials with a result, those that were stopped early included.
    :param best: ``None`` if no trial ended with an objective.
    :param trials: by number; if there are more than the caller wanted, the best ones.
    :param trials_left_out: how many are not in ``trials``.
    """

    goal: Goal
    metric_tag: str
    max_trials: int
    completed: int
    stopped_early: int
    running: int
    failed: int
    cancelled: int
    best: BestTrial | None
    trials: list[TrialRow]
    trials_left_out: int


class JobResult(ResultModel):
    """
    The result of one job.

    For a tuning job, ``metrics``, ``model_uri`` and ``files`` are those of its best trial.

    :param image: the image by digest, ``HOST/REPOSITORY@sha256:...``.
    :param metrics: the contents of the metrics file, a JSON object; of a trial without one, its objective.
    :param model_uri: the job directory's model, if the trainer wrote one.
    :param model_generation: of the object at ``model_uri``.
    :param bill_of_materials_uri: the packages of the image, if a task has written them into the job
        directory.
    :param study: of a tuning job.
    :param cost: ``None`` where the connection has no price for a machine of the job; 0 where ``reused``.
    :param reused: it is the result of an earlier job of the same content (``reuse_results``); ``seconds`` are
        those of that job.
    :param job_url: address of the job's record at the service.
    """

    job_id: str
    state: JobState
    image: str
    job_dir: str
    metrics: dict[str, JsonValue]
    model_uri: str | None
    bill_of_materials_uri: str | None = None
    files: list[ResultFile]
    seconds: StateSeconds
    study: StudyResult | None = None
    cost: Cost | None = None
    reused: bool = False
    job_url: str | None = None
    model_generation: int | None = None


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
