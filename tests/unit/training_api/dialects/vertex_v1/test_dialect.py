"""The value that the dialect is."""

from __future__ import annotations

from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.vertex_v1.dialect import VERTEX_V1


def test_it_names_every_field_that_the_service_may_speak_of() -> None:
    """But an earlier study: Vertex AI has no field that resumes one."""
    assert VERTEX_V1.fields.keys() == ML_V1.fields.keys() - {"study.resume_job_id"}
