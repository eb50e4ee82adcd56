"""The words for states of jobs and trials in this dialect. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from training_api.states import JobState

#: discovery: JobState. EXPIRED, PAUSED and PARTIALLY_SUCCEEDED are never answered: for the SDK the first and
#: the last are no ends, so that its wait would have none.
JOB_STATES: Mapping[JobState, str] = {
    JobState.QUEUED: "JOB_STATE_QUEUED",
    JobState.PREPARING: "JOB_STATE_PENDING",
    JobState.RUNNING: "JOB_STATE_RUNNING",
    JobState.SUCCEEDED: "JOB_STATE_SUCCEEDED",
    JobState.FAILED: "JOB_STATE_FAILED",
    JobState.CANCELLING: "JOB_STATE_CANCELLING",
    JobState.CANCELLED: "JOB_STATE_CANCELLED",
}
#: discovery: Trial.state. A trial that is stopped early, and still runs, is STOPPING, too.
TRIAL_STATES: Mapping[JobState, str] = {
    JobState.QUEUED: "REQUESTED",
    JobState.PREPARING: "REQUESTED",
    JobState.RUNNING: "ACTIVE",
    JobState.SUCCEEDED: "SUCCEEDED",
    JobState.FAILED: "INFEASIBLE",
    JobState.CANCELLING: "STOPPING",
    JobState.CANCELLED: "INFEASIBLE",
}
