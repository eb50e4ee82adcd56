"""A version of a model, as Vertex AI shows it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from container_training.work.models.versions import ModelVersion
from container_training.work.models.vertex_model import vertex_model, vertex_model_id
from training_api.job.results import ResultFile

FOLDER = "gs://bucket/models/digits"


def make_version(version_id: str = "job_1", generation: int = 7, **changes: Any) -> ModelVersion:
    uri = f"{FOLDER}/versions/{version_id}/model.joblib"
    given = {
        "version_id": version_id,
        "model": ResultFile(uri=uri, size_bytes=1, crc32c="AAAAAA==", generation=generation),
        "image": "h/p/i@sha256:" + "0" * 64,
        "job_id": "job_1",
        "snapshot_uri": None,
        "metrics": {},
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "created_by": "dag run task",
        **changes,
    }
    return ModelVersion(**given)


def test_the_id_follows_from_the_versions_copy_alone() -> None:
    found = vertex_model_id(make_version())

    assert re.fullmatch(r"[a-z_][a-z0-9_-]{0,62}", found)
    assert found == vertex_model_id(make_version(created_by="another try", vertex_model="n@1"))
    others = {vertex_model_id(make_version("job_2")), vertex_model_id(make_version(generation=8))}
    assert len({found, *others}) == 3


def test_what_is_not_given_follows_from_the_version() -> None:
    container = {"container_spec": {"image_uri": "h/p/server:1"}}

    assert vertex_model(make_version(), container) == {
        "display_name": "digits",
        "description": f"Version job_1 of {FOLDER}, of job job_1",
        "artifact_uri": f"{FOLDER}/versions/job_1/",
        **container,
    }
    given = {"display_name": "mine", "artifact_uri": "gs://bucket/jobs/1/model/", "description": ""}
    assert vertex_model(make_version(), given) == given
