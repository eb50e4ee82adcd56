"""
The tasks of retraining on an object store, without a scheduler.

Tests see what each task is given, returns and pushes.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset

from container_training.operators.data import SnapshotDataOperator
from container_training.operators.models import PromoteModelOperator, RegisterModelOperator
from container_training.work.models.promotion import Contender, Decision, Evaluation, PromotionRule
from container_training.work.models.registry import ModelRegistry
from container_training.work.models.versions import ModelVersion
from container_training.work.object_store import ObjectStore
from training_api.job.results import JobResult, StateSeconds
from training_api.states import JobState

CHAMPION = Asset("champion")


class Context(dict[str, Any]):
    """What an operator is given, and what it pushed."""

    def __init__(self, run_id: str = "run", task_id: str = "task") -> None:
        self.pushed: dict[str, Any] = {}
        ti = SimpleNamespace(
            dag_id="dag",
            run_id=run_id,
            task_id=task_id,
            map_index=-1,
            xcom_push=lambda key, value: self.pushed.update({key: value}),
        )
        super().__init__(ti=ti, outlet_events={CHAMPION: SimpleNamespace(extra={})})


def put(store: ObjectStore, folder: str, rows: list[list[str]]) -> None:
    text = "\n".join(",".join(row) for row in rows)
    store.write_if_changed(f"{folder}/in/digits.csv", text.encode(), "text/csv")


def taken(folder: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a snapshot of the folder's data, and what the task pushed beside it."""
    context = Context()
    task = SnapshotDataOperator(task_id="t", sources=f"{folder}/in/", model_folder=folder, copy="True")
    return task.execute(context), context.pushed  # type: ignore[arg-type]


def make_result(store: ObjectStore, folder: str, job_id: str, **changes: Any) -> dict[str, Any]:
    uri = f"{folder}/jobs/{job_id}/model.joblib"
    store.write_if_changed(uri, job_id.encode(), "text/plain")
    found = store.find(uri)
    assert found is not None
    given: dict[str, Any] = {
        "job_id": job_id,
        "state": JobState.SUCCEEDED,
        "image": "h/p/i@sha256:" + "0" * 64,
        "job_dir": f"{folder}/jobs/{job_id}",
        "metrics": {"accuracy": 0.9},
        "model_uri": uri,
        "model_generation": found.generation,
        "files": [],
        "seconds": StateSeconds(queued=0, preparing=0, running=0, total=0),
        **changes,
    }
    return JobResult(**given).model_dump(mode="json")


def register(store: ObjectStore, folder: str, job_id: str, **arguments: Any) -> dict[str, Any]:
    task = RegisterModelOperator(
        task_id="t", model_folder=folder, result=make_result(store, folder, job_id), **arguments
    )
    return task.execute(Context())  # type: ignore[arg-type]


def make_decision(challenger: str, generation: int, *, promote: bool = True) -> dict[str, Any]:
    return Decision(
        promote=promote,
        why="because",
        challenger=challenger,
        champion=None,
        champion_generation=generation,
        examples=10,
        challenger_accuracy=0.9,
        rule=PromotionRule(),
    ).model_dump(mode="json")


def judge(store: ObjectStore, folder: str, version: dict[str, Any]) -> Decision:
    """Decide about a version as if there were no champion, and keep the decision."""
    challenger = Contender(
        version=ModelVersion.model_validate(version),
        evaluation=Evaluation(examples_sha256="a" * 64, correct="1", model="m"),
    )
    return ModelRegistry(store, folder).judge(challenger, None, PromotionRule(), champion_generation=0)


def promote(
    folder: str, version: dict[str, Any], generation: int, context: Context | None = None
) -> dict[str, Any]:
    task = PromoteModelOperator(
        task_id="t",
        model_folder=folder,
        version=version,
        decision=make_decision(version["version_id"], generation),
        outlets=[CHAMPION],
    )
    return task.execute(context or Context(run_id=version["version_id"]))  # type: ignore[arg-type]


def connect_hooks(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every hook of the test use ``store``, and no MLflow."""
    monkeypatch.setattr("container_training.hooks.storage.StorageHook.get_conn", lambda _self: store)
    monkeypatch.setattr("container_training.hooks.model_registry.ModelRegistryHook._mlflow", None)
