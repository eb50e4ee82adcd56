"""
Tables of jobs as the ops API gives them, with what was asked in ml.v1's words.

The rest of that protocol: ``training_api/fleet/wire.py``.
"""

from __future__ import annotations

from training_api.dialects.ml_v1.resources import TrainingInput
from training_api.fleet.wire import JobReason, TrialCounts
from training_api.states import JobState
from training_api.wire import Timestamp, WireModel


class JobRow(WireModel):
    """
    One job, as a table shows it.

    :param prepare_time: when it left the queue.
    :param start_time: when it was RUNNING.
    :param reason: ``None``: it goes on or went well, or the service did not write reasons when it ended.
    :param training_input: scale tier, region, replicas and what a study looks for; not the arguments.
    :param billed_seconds: RUNNING so far; of a tuning job the sum over its trials.
    """

    job_id: str
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


class SearchJobsResponse(WireModel):
    """
    One page of jobs.

    ``total`` and ``states`` count all matching jobs, whatever the page.
    """

    jobs: list[JobRow] = []
    next_page_token: str = ""
    total: int = 0
    states: dict[JobState, int] = {}
