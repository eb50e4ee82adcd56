"""Model versions and authors for tests of the registry."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from container_training.work.models.champion import Author
from container_training.work.models.promotion import Contender, Evaluation
from container_training.work.models.versions import HoldOut, ModelVersion
from container_training.work.object_store import ObjectStore
from training_api.job.results import ResultFile

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
FIFTH = HoldOut(rule="content", fraction=0.2)
THIRD = HoldOut(rule="content", fraction=0.3)


def make_version(version_id: str = "v1", **changes: Any) -> ModelVersion:
    given: dict[str, Any] = {
        "version_id": version_id,
        "model": ResultFile(
            uri=f"gs://bkt/m/versions/{version_id}/model.joblib", size_bytes=1, crc32c="", generation=1
        ),
        "image": "127.0.0.1:5000/p/digits@sha256:" + "0" * 64,
        "job_id": version_id,
        "snapshot_uri": None,
        "metrics": {"accuracy": 0.9},
        "created_at": NOW,
        "created_by": "tests",
        **changes,
    }
    return ModelVersion(**given)


def make_contender(
    name: str, correct: str, *, trained: HoldOut | None = None, digest: str = "a" * 64, **fields: Any
) -> Contender:
    return Contender(
        version=make_version(name, hold_out=trained),
        evaluation=Evaluation(examples_sha256=digest, correct=correct, model="gs://b/m#1", **fields),
    )


def registered(store: ObjectStore, folder: str, version_id: str) -> ModelVersion:
    """Return a version whose model is in the store."""
    from container_training.work.models.registry import ModelRegistry

    uri = f"{folder}/jobs/{version_id}/model.joblib"
    store.write_if_changed(uri, version_id.encode(), "application/octet-stream")
    found = store.find(uri)
    assert found is not None
    return ModelRegistry(store, folder).register(make_version(version_id), found.pinned_uri)


def make_author(change_id: str = "run-1") -> Author:
    return Author(change_id=change_id, by=f"dag {change_id}", at=NOW, why="a test")
