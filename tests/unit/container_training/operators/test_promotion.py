"""A challenger beside the champion: the jobs that evaluate both, and the decision."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from airflow.sdk.exceptions import AirflowFailException

from container_training.operators.promotion import DecidePromotionOperator, PrepareEvaluationsOperator
from container_training.work.job_buckets import JobBuckets
from container_training.work.models.looks import Looks
from container_training.work.models.registry import ModelRegistry
from container_training.work.models.versions import ModelVersion
from container_training.work.object_store import ObjectStore
from tests.support.bed.model_tasks import Context, connect_hooks, register
from tests.support.bed.model_versions import make_author, registered


@pytest.fixture(autouse=True)
def _connected(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    connect_hooks(store, monkeypatch)


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


def looks_of(store: ObjectStore, folder: str) -> Looks:
    return Looks.model_validate_json(store.read(ModelRegistry(store, folder).looks_uri, 10**6) or b"{}")


def decide(
    folder: str, challenger: dict[str, Any], jobs: dict[str, str | None], buckets: JobBuckets | None = None
) -> dict[str, Any]:
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
        if buckets:
            hook.return_value.job_buckets = buckets
        return task.execute(Context())  # type: ignore[arg-type]


def test_an_evaluation_in_a_bucket_of_another_project_is_not_read(
    store: ObjectStore, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    challenger = register(store, folder, "a")
    evaluation = f'{{"examples_sha256": "{"a" * 64}", "correct": "1", "model": "m"}}'
    store.write_if_changed(f"{folder}/secret/evaluation.json", evaluation.encode(), "text/json")
    buckets = JobBuckets.of("training_default", "another", {"job_bucket": "gs://another-bucket/jobs"})
    monkeypatch.setattr(store, "lists_bucket", lambda project, bucket: False)

    with pytest.raises(AirflowFailException, match=r"BucketRefused: .* is not one of project 'another'"):
        decide(folder, challenger, {"j": f"{folder}/secret"}, buckets)


def test_a_decision_is_about_the_model_that_was_evaluated(store: ObjectStore, folder: str) -> None:
    challenger = register(store, folder, "a")
    uri = ModelVersion.model_validate(challenger).model_uri
    for name, model in (("right", uri), ("wrong", uri + "0")):
        evaluation = f'{{"examples_sha256": "{"a" * 64}", "correct": "1110", "model": "{model}"}}'
        store.write_if_changed(f"{folder}/{name}/evaluation.json", evaluation.encode(), "text/json")

    decision = decide(folder, challenger, {"j": f"{folder}/right"})

    assert (decision["promote"], decision["champion_generation"]) == (True, 3)
    assert decision["challenger_accuracy"] == 0.75
    assert decide(folder, challenger, {"j": f"{folder}/right"}) == decision
    assert len(looks_of(store, folder).judgements) == 1
    with pytest.raises(AirflowFailException, match="none of the jobs evaluated"):
        decide(folder, challenger, {"j": f"{folder}/wrong"})
    with pytest.raises(AirflowFailException, match=r"left no .*its command must write"):
        decide(folder, challenger, {"j": f"{folder}/nothing"})
    assert len(looks_of(store, folder).judgements) == 1


@pytest.mark.parametrize("champion", [None, {}, {"version": {}, "generation": 1}, {"version": None}])
def test_a_champion_that_is_none_of_the_preparation_is_named_and_final(
    store: ObjectStore, folder: str, champion: Any
) -> None:
    task = DecidePromotionOperator(
        task_id="t",
        model_folder=folder,
        challenger=register(store, folder, "a"),
        champion=champion,
        job_ids=[],
    )

    with (
        mock.patch("container_training.operators.promotion.TrainingHook"),
        pytest.raises(
            AirflowFailException,
            match=r"^InvalidArgument: champion must be the output of PrepareEvaluationsOperator",
        ),
    ):
        task.execute(Context())  # type: ignore[arg-type]
