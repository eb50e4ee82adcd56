"""The dialects of this version: what people call them, and how they name resources."""

from __future__ import annotations

import pytest

from training_api.dialects.registry import DIALECTS, title_of
from training_api.job.dialect import Resource, ResourceKind
from training_api.job.project_number import project_number


def test_an_unknown_dialect_is_called_by_its_name() -> None:
    assert [title_of(name) for name in ("ml_v1", "vertex_v1", "x")] == [
        "AI Platform Training",
        "Vertex AI",
        "x",
    ]


@pytest.mark.parametrize(
    ("kind", "collection"),
    [
        (ResourceKind.JOB, "customJobs"),
        (ResourceKind.TUNING_JOB, "hyperparameterTuningJobs"),
        (ResourceKind.PIPELINE, "trainingPipelines"),
    ],
)
def test_vertex_ai_names_a_resource_by_its_projects_number(kind: ResourceKind, collection: str) -> None:
    resource = Resource(kind=kind, project="demo", region="us-central1", id="12")

    name = DIALECTS["vertex_v1"].resource_name(resource)

    assert name == f"projects/{project_number('demo')}/locations/us-central1/{collection}/12"
