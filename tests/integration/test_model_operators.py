"""The operators of retraining on the real object store: what they return, refuse and skip."""

from __future__ import annotations

import csv
import gzip
import io
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from container_training.operators.data import SnapshotDataOperator, ValidateDataOperator
from container_training.operators.models import (
    CleanUpModelsOperator,
    PromoteModelOperator,
    RegisterModelOperator,
    RollbackModelOperator,
)
from container_training.operators.promotion import DecidePromotionOperator, PrepareEvaluationsOperator
from container_training.work.models.promotion import Decision, PromotionRule
from container_training.work.models.registry import ModelRegistry
from container_training.work.models.versions import ModelVersion
from container_training.work.object_store import ObjectStore
from tests.support.bed.model_versions import make_author, registered
from training_api.job.results import JobResult, StateSeconds
from training_api.states import JobState

CHAMPION = Asset("champion")
RULES = {
    "columns": 65,
    "label": "64",
    "labels": [str(digit) for digit in range(10)],
    "low": 0,
    "high": 16,
    "min_rows": "1000",
    "min_label_share": 0.05,
}


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


@pytest.fixture(autouse=True)
def _connected(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("container_training.hooks.storage.StorageHook.get_conn", lambda _self: store)
    monkeypatch.setattr(
        "container_training.hooks.model_registry.ModelRegistryHook._mirror", lambda _self: None
    )


@pytest.fixture(scope="module")
def digits() -> list[list[str]]:
    """scikit-learn's images as rows of text."""
    package = find_spec("sklearn")
    assert package is not None
    (folder,) = package.submodule_search_locations or ()
    packed = (Path(folder) / "datasets" / "data" / "digits.csv.gz").read_bytes()
    return list(csv.reader(io.StringIO(gzip.decompress(packed).decode())))


def put(store: ObjectStore, folder: str, rows: list[list[str]]) -> None:
    text = "\n".join(",".join(row) for row in rows)
    store.write_if_changed(f"{folder}/in/digits.csv", text.encode(), "text/csv")


def taken(folder: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a snapshot of the folder's data, and what the task pushed beside it."""
    context = Context()
    task = SnapshotDataOperator(task_id="t", sources=f"{folder}/in/", model_folder=folder, copy="True")
    return task.execute(context), context.pushed  # type: ignore[arg-type]


def validated(folder: str, snapshot: dict[str, Any], **changes: Any) -> dict[str, Any]:
    rules = {**RULES, **changes.pop("rules", {})}
    task = ValidateDataOperator(task_id="t", snapshot=snapshot, model_folder=folder, rules=rules, **changes)
    return task.execute(Context())  # type: ignore[arg-type]


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


def test_good_data_pass_and_leave_a_profile_for_the_next_time(
    store: ObjectStore, folder: str, digits: list[list[str]]
) -> None:
    put(store, folder, digits)
    snapshot, pushed = taken(folder)
    report = validated(folder, snapshot)
    version = register(store, folder, "a", snapshot_uri=pushed["manifest_uri"])
    promote(folder, version, 0)

    put(store, folder, digits[:1700])
    later = validated(folder, taken(folder)[0])

    assert report["rows"] == 1797
    assert [check["name"] for check in report["checks"]][-1] == "label balance"
    assert [check["name"] for check in later["checks"]][-1] == "drift"
    assert pushed["uris"] == [f"{file['uri']}#{file['generation']}" for file in snapshot["files"]]


def test_data_that_have_drifted_stop_the_run_and_a_person_can_let_them_pass(
    store: ObjectStore, folder: str, digits: list[list[str]]
) -> None:
    put(store, folder, digits)
    snapshot, pushed = taken(folder)
    validated(folder, snapshot)
    promote(folder, register(store, folder, "a", snapshot_uri=pushed["manifest_uri"]), 0)
    inverted = [[*(str(16 - int(pixel)) for pixel in row[:-1]), row[-1]] for row in digits]
    put(store, folder, inverted)
    drifted, _ = taken(folder)

    with pytest.raises(AirflowFailException, match=r"DataInvalid: 1 of 6 checks .* columns drifted: PSI"):
        validated(folder, drifted)

    assert validated(folder, drifted, rules={"max_drift": "100"})["rows"] == 1797


def test_every_check_that_failed_is_in_the_error_and_nothing_is_kept(
    store: ObjectStore, folder: str, digits: list[list[str]]
) -> None:
    put(store, folder, [row for row in digits if row[-1] != "3"][:500])
    snapshot, _ = taken(folder)

    with pytest.raises(AirflowFailException) as caught:
        validated(folder, snapshot)

    assert "2 of 5 checks" in str(caught.value)
    assert "rows: 500 rows, min_rows 1000" in str(caught.value)
    assert "missing: 3" in str(caught.value)
    assert store.find(f"{folder}/snapshots/{snapshot['snapshot_id']}/profile.json") is None


def test_a_snapshot_that_was_tried_is_skipped_if_asked_for(
    store: ObjectStore, folder: str, digits: list[list[str]]
) -> None:
    put(store, folder, digits)
    snapshot, pushed = taken(folder)
    validated(folder, snapshot, skip_tried="True")
    register(store, folder, "refused", snapshot_uri=pushed["manifest_uri"])

    with pytest.raises(AirflowSkipException, match="version 'refused' was made from snapshot"):
        validated(folder, snapshot, skip_tried="True")
    assert validated(folder, snapshot, skip_tried="False")["rows"] == 1797


def test_data_that_are_too_large_for_a_worker_are_an_error(
    store: ObjectStore, folder: str, digits: list[list[str]]
) -> None:
    put(store, folder, digits)

    with pytest.raises(AirflowFailException, match="must be at most 1000 bytes"):
        validated(folder, taken(folder)[0], max_bytes=1000)


def test_a_job_without_a_model_cannot_be_registered(store: ObjectStore, folder: str) -> None:
    result = {**make_result(store, folder, "a"), "model_uri": None}

    with pytest.raises(AirflowFailException, match="left no model to register"):
        RegisterModelOperator(task_id="t", model_folder=folder, result=result).execute(Context())  # type: ignore[arg-type]


def test_a_version_has_the_metrics_of_its_evaluation_beside_its_own(store: ObjectStore, folder: str) -> None:
    evaluation = make_result(store, folder, "e", metrics={"accuracy": 0.7})

    version = register(store, folder, "a", evaluation=evaluation)

    assert version["metrics"] == {"accuracy": 0.9, "evaluation_accuracy": 0.7}


def test_a_promotion_tells_its_asset_and_a_retry_changes_nothing(store: ObjectStore, folder: str) -> None:
    version, context = register(store, folder, "a"), Context()

    event = promote(folder, version, 0, context)
    again = promote(folder, version, 0, context)

    assert again["change"] == event["change"]
    extra = context["outlet_events"][CHAMPION].extra
    assert (extra["metrics"], extra["change"]["by"]) == ({"accuracy": 0.9}, "dag run task")
    assert extra["model_uri"] == ModelVersion.model_validate(version).model_uri


def test_a_cleared_run_may_promote_another_version_than_before(store: ObjectStore, folder: str) -> None:
    context = Context()
    first = promote(folder, register(store, folder, "job_1"), 0, context)

    second = promote(folder, register(store, folder, "job_2"), first["pointer_generation"], context)

    assert (second["change"]["before"], second["change"]["champion"]) == ("job_1", "job_2")


def test_a_stale_decision_fails_without_a_retry_and_tells_no_asset(store: ObjectStore, folder: str) -> None:
    promote(folder, register(store, folder, "a"), 0)
    context = Context(run_id="late")

    with pytest.raises(AirflowFailException, match=r"ChampionMoved: .* compare with this champion"):
        promote(folder, register(store, folder, "b"), 0, context)

    assert context["outlet_events"][CHAMPION].extra == {}


def test_a_challenger_that_was_refused_skips_the_promotion(store: ObjectStore, folder: str) -> None:
    version = register(store, folder, "a")
    task = PromoteModelOperator(
        task_id="t", model_folder=folder, version=version, decision=make_decision("a", 0, promote=False)
    )

    with pytest.raises(AirflowSkipException, match="'a' is not promoted: because"):
        task.execute(Context())  # type: ignore[arg-type]
    assert ModelRegistry(store, folder).read().pointer is None


def test_a_rollback_with_an_empty_param_takes_whichever_champion_there_is(
    store: ObjectStore, folder: str
) -> None:
    generation = promote(folder, register(store, folder, "a"), 0)["pointer_generation"]
    promote(folder, register(store, folder, "b"), generation)
    task = RollbackModelOperator(task_id="t", model_folder=folder, expected="", outlets=[CHAMPION])
    context = Context(run_id="back")

    event = task.execute(context)  # type: ignore[arg-type]

    assert event["change"]["champion"] == "a"
    assert context["outlet_events"][CHAMPION].extra["change"]["kind"] == "ROLLBACK"


def test_a_clean_up_spares_the_champion_its_predecessors_and_what_is_young(
    store: ObjectStore, folder: str, digits: list[list[str]]
) -> None:
    put(store, folder, digits[:1000])
    _, used = taken(folder)
    put(store, folder, digits[:1001])
    _, unused = taken(folder)
    generation = 0
    for name in ("a", "b"):
        version = register(store, folder, name, snapshot_uri=used["manifest_uri"])
        generation = promote(folder, version, generation)["pointer_generation"]
    register(store, folder, "refused", snapshot_uri=unused["manifest_uri"])

    def clean_up(min_age: timedelta) -> dict[str, list[str]]:
        task = CleanUpModelsOperator(task_id="t", model_folder=folder, keep="0", min_age=min_age)
        return task.execute(Context())  # type: ignore[arg-type]

    young, old = clean_up(timedelta(hours=1)), clean_up(timedelta(0))

    assert young == {"versions": [], "snapshots": []}
    assert old == {"versions": ["refused"], "snapshots": [unused["manifest_uri"].split("/")[-2]]}
    registry = ModelRegistry(store, folder)
    assert [version.version_id for version in registry.versions()] == ["a", "b"]
    assert all(store.find(uri) for uri in used["uris"])
    registry.roll_back(make_author("back"))


def test_both_models_are_evaluated_in_their_own_images_with_the_same_arguments(
    store: ObjectStore, folder: str
) -> None:
    challenger = register(store, folder, "b")
    task = PrepareEvaluationsOperator(
        task_id="t", model_folder=folder, challenger=challenger, args=["--data", ["x", "y"]]
    )

    alone, first = task.execute(context := Context()), context.pushed["champion"]  # type: ignore[arg-type]
    champion = registered(store, folder, "a")
    changed = ModelRegistry(store, folder).promote(champion, make_author(), generation=0)
    both, second = task.execute(context := Context()), context.pushed["champion"]  # type: ignore[arg-type]

    uri = ModelVersion.model_validate(challenger).model_uri
    assert alone == [{"image": challenger["image"], "args": ["--data", ["x", "y"], "--model", uri]}]
    assert first == {"version": None, "generation": 0}
    assert both[1] == {
        "image": champion.image,
        "args": ["--data", ["x", "y"], "--model", champion.model_uri],
    }
    assert second["generation"] == changed.generation


def decide(folder: str, challenger: dict[str, Any], jobs: dict[str, str | None]) -> dict[str, Any]:
    task = DecidePromotionOperator(
        task_id="t",
        model_folder=folder,
        challenger=challenger,
        champion={"version": None, "generation": 3},
        job_ids=list(jobs),
        min_accuracy="0.5",
    )
    with mock.patch("container_training.operators.promotion.TrainingHook") as hook:
        hook.return_value.get_job.side_effect = lambda job_id: SimpleNamespace(
            training_input=SimpleNamespace(job_dir=jobs[job_id])
        )
        return task.execute(Context())  # type: ignore[arg-type]


def test_a_decision_is_about_the_model_that_was_evaluated(store: ObjectStore, folder: str) -> None:
    challenger = register(store, folder, "a")
    uri = ModelVersion.model_validate(challenger).model_uri
    for name, model in (("right", uri), ("wrong", uri + "0")):
        evaluation = f'{{"examples_sha256": "{"a" * 64}", "correct": "1110", "model": "{model}"}}'
        store.write_if_changed(f"{folder}/{name}/evaluation.json", evaluation.encode(), "text/json")

    decision = decide(folder, challenger, {"j": f"{folder}/right"})

    assert (decision["promote"], decision["champion_generation"]) == (True, 3)
    assert decision["challenger_accuracy"] == 0.75
    with pytest.raises(AirflowFailException, match="none of the jobs evaluated"):
        decide(folder, challenger, {"j": f"{folder}/wrong"})
    with pytest.raises(AirflowFailException, match=r"left no .*its command must write"):
        decide(folder, challenger, {"j": f"{folder}/nothing"})
