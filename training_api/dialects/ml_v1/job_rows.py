"""
Jobs of all dialects as the ops API gives them, with their machines in ml.v1's words.

The rest of that protocol: ``training_api/fleet/wire.py``.
"""

from __future__ import annotations

from typing import Any

from training_api.dialects.ml_v1.resources import TrainingInput
from training_api.fleet.job_detail import PipelineView, PoolView, StudyView, TrialView
from training_api.fleet.wire import JobReason, TrialCounts
from training_api.states import JobState
from training_api.wire import Timestamp, WireModel


class JobRow(WireModel):
    """
    One job, as a table shows it.

    :param dialect: the name of the API in which it was asked for.
    :param display_name: what its submitter calls it, where that is not the id; empty: nothing.
    :param prepare_time: when it left the queue.
    :param start_time: when it was RUNNING.
    :param reason: ``None``: it goes on or went well, or the service did not write reasons when it ended.
    :param training_input: scale tier, region, replicas and what a study looks for; not the arguments.
    :param billed_seconds: RUNNING so far; of a tuning job the sum over its trials.
    """

    job_id: str
    dialect: str = "ml_v1"
    display_name: str = ""
    state: JobState
    labels: dict[str, str] = {}
    create_time: Timestamp
    prepare_time: Timestamp | None = None
    start_time: Timestamp | None = None
    end_time: Timestamp | None = None
    error_message: str | None = None
    reason: JobReason | None = None
    job_position: int | None = None
    training_input: TrainingInput = TrainingInput()
    trials: TrialCounts | None = None
    billed_seconds: float = 0.0


class JobDetail(WireModel):
    """
    One job, as its page shows it.

    :param name: its resource name: ``projects/P/locations/L/customJobs/ID``.
    :param pools: its replicas, the master's first; of a tuning job those of each trial.
    :param output_dir: where it writes, or its trials below; empty: nowhere that is known.
    :param max_wait_seconds: limit on QUEUED and PREPARING together; ``None``: none.
    :param request: the job as it was asked for, in the JSON of its dialect.
    :param study: what it searches for; ``None``: it trains once.
    :param pipeline: what it was made for; ``None``: it was submitted as it is.
    """

    job: JobRow
    name: str
    region: str = ""
    pools: list[PoolView] = []
    output_dir: str = ""
    max_wait_seconds: float | None = None
    max_running_seconds: float | None = None
    request: dict[str, Any] = {}
    study: StudyView | None = None
    trials: list[TrialView] = []
    pipeline: PipelineView | None = None


class SearchJobsResponse(WireModel):
    """
    One page of jobs.

    ``total`` and ``states`` count all matching jobs, whatever the page.
    """

    jobs: list[JobRow] = []
    next_page_token: str = ""
    total: int = 0
    states: dict[JobState, int] = {}
