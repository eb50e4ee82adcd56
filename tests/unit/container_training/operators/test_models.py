"""Versions of a model: registered, made the champion, rolled back, cleaned up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from container_training.operators.models import (
    CleanUpModelsOperator,
    ModelOperator,
    PromoteModelOperator,
    RegisterModelOperator,
    RollbackModelOperator,
)
from container_training.work.models.registry import ModelRegistry
from container_training.work.models.versions import ModelVersion
from container_training.work.object_store import ObjectStore
from tests.support.bed.model_tasks import (
    CHAMPION,
    Context,
    connect_hooks,
    make_decision,
    make_result,
    promote,
    put,
    register,
    taken,
)
from tests.support.bed.model_versions import make_author


@pytest.fixture(autouse=True)
def _connected(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    connect_hooks(store, monkeypatch)


def test_a_job_without_a_model_cannot_be_registered(store: ObjectStore, folder: str) -> None:
    result = {**make_result(store, folder, "a"), "model_uri": None}

    with pytest.raises(AirflowFailException, match="left no model to register"):
        RegisterModelOperator(task_id="t", model_folder=folder, result=result).execute(Context())  # type: ignore[arg-type]


def test_a_version_has_the_metrics_of_its_evaluation_beside_its_own(store: ObjectStore, folder: str) -> None:
    evaluation = make_result(store, folder, "e", metrics={"accuracy": 0.7})

    version = register(store, folder, "a", evaluation=evaluation)

    assert version["metrics"] == {"accuracy": 0.9, "evaluation_accuracy": 0.7}


def test_a_version_has_the_rows_it_was_not_trained_on(store: ObjectStore, folder: str) -> None:
    hold_out = {"rule": "content", "fraction": 0.2, "seed": None}
    trained = make_result(store, folder, "a", metrics={"accuracy": 0.9, "hold_out": hold_out})
    split = make_result(store, folder, "p", metrics={"rows": 9, "hold_out": {**hold_out, "seed": 7}})

    def version_of(**arguments: Any) -> dict[str, Any]:
        task = RegisterModelOperator(task_id="t", model_folder=folder, result=trained, **arguments)
        return task.execute(Context())  # type: ignore[arg-type]

    own, of_split = version_of(), version_of(split=split, version_id="b")

    assert (own["hold_out"], own["metrics"]) == (hold_out, {"accuracy": 0.9})
    assert (of_split["hold_out"], of_split["metrics"]) == ({**hold_out, "seed": 7}, {"accuracy": 0.9})
    assert ModelRegistry(store, folder).find("a") == ModelVersion.model_validate(own)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ({}, r"job 'p' must be an object with rule.*got None"),
        ({"hold_out": "content"}, "got 'content'"),
        ({"hold_out": {"rule": "content", "fraction": 20}}, "fraction: Input should be less than 1"),
    ],
)
def test_a_hold_out_that_cannot_be_read_is_named_and_final(
    store: ObjectStore, folder: str, metrics: dict[str, Any], message: str
) -> None:
    task = RegisterModelOperator(
        task_id="t",
        model_folder=folder,
        result=make_result(store, folder, "a"),
        split=make_result(store, folder, "p", metrics=metrics),
    )

    with pytest.raises(AirflowFailException, match=message):
        task.execute(Context())  # type: ignore[arg-type]


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
    store: ObjectStore, folder: str
) -> None:
    put(store, folder, [["1", "2"]])
    _, used = taken(folder)
    put(store, folder, [["1", "2"], ["3", "4"]])
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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda folder, _: RegisterModelOperator(task_id="t", model_folder=folder, result="job_1"),  # type: ignore[arg-type]
            "InvalidArgument: result must be the output of CollectTrainingResultsOperator, got 'job_1': ",
        ),
        (
            lambda folder, version: PromoteModelOperator(
                task_id="t",
                model_folder=folder,
                version={**version, "image": None},
                decision=make_decision("a", 0),
            ),
            r"InvalidArgument: version must be the output of RegisterModelOperator, got \{.*\.\.\.: image must be a valid string, got None",
        ),
        (
            lambda folder, version: PromoteModelOperator(
                task_id="t", model_folder=folder, version=version, decision={}
            ),
            r"InvalidArgument: decision must be the output of DecidePromotionOperator, got \{\}: promote is missing",
        ),
        (
            lambda folder, version: PromoteModelOperator(
                task_id="t", model_folder=folder, version=version, decision=make_decision("another", 0)
            ),
            "InvalidArgument: the decision is about 'another', and the version is 'a'",
        ),
    ],
)
def test_what_is_no_output_of_the_task_before_is_named_and_final(
    store: ObjectStore, folder: str, make: Callable[[str, dict[str, Any]], ModelOperator], message: str
) -> None:
    task = make(folder, register(store, folder, "a"))

    with pytest.raises(AirflowFailException, match=f"^{message}"):
        task.execute(Context())  # type: ignore[arg-type]
