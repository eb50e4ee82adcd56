"""Versions of a model: registered, made the champion, rolled back, cleaned up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from google.api_core.exceptions import FailedPrecondition

from container_training.hooks.vertex_models import VertexModelsHook
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
from tests.support.fakes.vertex_models import FakeVertexModels
from training_api.errors import ModelUnknown, ObjectChanged


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


# --- uploads to Vertex AI


SERVED_BY = {"container_spec": {"image_uri": "h/p/server:1"}}


@pytest.fixture
def vertex(monkeypatch: pytest.MonkeyPatch) -> FakeVertexModels:
    """Vertex AI's Model Registry, of every hook of the test."""
    fake = FakeVertexModels()
    monkeypatch.setattr(VertexModelsHook, "provider", fake)
    return fake


def test_a_version_is_uploaded_on_request_and_says_how_it_is_called(
    store: ObjectStore, folder: str, vertex: FakeVertexModels
) -> None:
    plain = register(store, folder, "a")
    assert (plain["vertex_model"], vertex.uploads) == (None, [])

    version = register(store, folder, "a", vertex_model=SERVED_BY, vertex_region="europe-west4")

    (request,) = vertex.uploads
    name = f"{request['parent']}/models/{request['model_id']}@1"
    assert version == {**plain, "vertex_model": name}
    assert ModelRegistry(store, folder).find("a") == ModelVersion.model_validate(version)
    assert request["parent"] == "projects/p-1/locations/europe-west4"
    assert request["model"].items() >= {**SERVED_BY, "artifact_uri": f"{folder}/versions/a/"}.items()


def test_an_empty_mapping_uploads_and_an_empty_template_does_not(
    store: ObjectStore, folder: str, vertex: FakeVertexModels
) -> None:
    for text in ("", "None", None):
        register(store, folder, "a", vertex_model=text)
    assert vertex.uploads == []

    register(store, folder, "a", vertex_model={}, vertex_project_id="p-2")

    assert [request["parent"] for request in vertex.uploads] == ["projects/p-2/locations/us-central1"]


@pytest.mark.parametrize("killed_in", ["the answer", "the note"])
def test_a_try_after_a_kill_uploads_no_second_model(
    store: ObjectStore,
    folder: str,
    vertex: FakeVertexModels,
    monkeypatch: pytest.MonkeyPatch,
    killed_in: str,
) -> None:
    def die(*_: object) -> None:
        raise SystemExit("killed")

    with monkeypatch.context() as killing:
        if killed_in == "the answer":
            killing.setattr(vertex, "failure", SystemExit("killed"))
        else:
            killing.setattr(ModelRegistry, "note_vertex_model", die)
        with pytest.raises(SystemExit):
            register(store, folder, "a", vertex_model=SERVED_BY)
    before = ModelRegistry(store, folder).find("a")
    assert before is not None
    assert before.vertex_model is None

    version = register(store, folder, "a", vertex_model=SERVED_BY)
    again = register(store, folder, "a", vertex_model=SERVED_BY)

    assert len(vertex.uploads) == len(vertex.models) == 1
    assert (
        version
        == again
        == {**before.model_dump(mode="json"), "vertex_model": f"{next(iter(vertex.models))}@1"}
    )


def test_a_refused_upload_is_final_and_leaves_the_version(
    store: ObjectStore, folder: str, vertex: FakeVertexModels
) -> None:
    vertex.refusal = FailedPrecondition("no such image")

    with pytest.raises(
        AirflowFailException, match=r"InvalidArgument: .* no such image; correct vertex_model"
    ):
        register(store, folder, "a", vertex_model=SERVED_BY)
    with pytest.raises(AirflowFailException, match="vertex_model must be a mapping, got 'mine'"):
        register(store, folder, "a", vertex_model="mine")

    found = ModelRegistry(store, folder).find("a")
    assert found is not None
    assert found.vertex_model is None


def test_a_note_whose_answer_was_lost_is_found_and_another_one_is_not_overwritten(
    store: ObjectStore, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(store, folder, "a")
    registry, write = ModelRegistry(store, folder), store.write_if

    def write_and_lose(*arguments: Any, **options: Any) -> int:
        write(*arguments, **options)
        raise ObjectChanged("the answer was lost")

    monkeypatch.setattr(store, "write_if", write_and_lose)
    assert registry.note_vertex_model("a", "n@1").vertex_model == "n@1"

    def write_late(uri: str, content: bytes, kind: str, *, generation: int) -> int:
        write(uri, content.replace(b"n@2", b"n@3"), kind, generation=generation)
        return write(uri, content, kind, generation=generation)

    monkeypatch.setattr(store, "write_if", write_late)
    with pytest.raises(ObjectChanged):
        registry.note_vertex_model("a", "n@2")

    found = registry.find("a")
    assert found is not None
    assert found.vertex_model == "n@3"
    with pytest.raises(ModelUnknown, match=r"there is no version at .*/versions/b/version\.json"):
        registry.note_vertex_model("b", "n@1")


# --- hold-outs


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
