"""The words for states of pipelines. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from training_api.states import JobState

#: discovery: PipelineState. A pipeline is RUNNING as soon as its job leaves the queue, long before the job is
#: (captured: contract A4). PAUSED is never answered: Airflow's triggers take it for a success.
PIPELINE_STATES: Mapping[JobState, str] = {
    JobState.QUEUED: "PIPELINE_STATE_PENDING",
    JobState.PREPARING: "PIPELINE_STATE_RUNNING",
    JobState.RUNNING: "PIPELINE_STATE_RUNNING",
    JobState.SUCCEEDED: "PIPELINE_STATE_SUCCEEDED",
    JobState.FAILED: "PIPELINE_STATE_FAILED",
    JobState.CANCELLING: "PIPELINE_STATE_CANCELLING",
    JobState.CANCELLED: "PIPELINE_STATE_CANCELLED",
}
