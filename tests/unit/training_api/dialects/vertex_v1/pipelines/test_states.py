"""The words for states of pipelines."""

from __future__ import annotations

from tests.support.discovery import schemas
from training_api.dialects.vertex_v1.pipelines.states import PIPELINE_STATES
from training_api.states import JobState


def test_every_state_has_a_word_that_the_real_service_has() -> None:
    known = schemas("aiplatform.v1")["GoogleCloudAiplatformV1TrainingPipeline"]["properties"]["state"]["enum"]

    assert set(PIPELINE_STATES) == set(JobState)
    assert set(PIPELINE_STATES.values()) <= set(known)
    assert "PIPELINE_STATE_PAUSED" not in PIPELINE_STATES.values()
