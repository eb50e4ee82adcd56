"""The account of a service in each project."""

from __future__ import annotations

from training_api.dialects.registry import DIALECTS
from training_api.job.project_number import project_number


def test_an_agent_is_named_after_the_projects_number_and_its_service() -> None:
    ml, vertex = DIALECTS["ml_v1"].agent, DIALECTS["vertex_v1"].agent

    assert ml.email("12") == "service-12@cloud-ml.google.com.iam.gserviceaccount.com"
    assert vertex.email("12") == "service-12@gcp-sa-aiplatform-cc.iam.gserviceaccount.com"
    assert ml.email("demo") == ml.email(str(project_number("demo"))) != ml.email("demo2")
