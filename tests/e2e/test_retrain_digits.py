"""
Retraining under the real scheduler.

Promoted with a person's approval, stopped by bad data, rolled back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from container_training.work.models.champion import ChampionPointer, ChangeKind
from container_training.work.models.promotion import Decision
from container_training.work.models.registry import ModelRegistry
from container_training.work.models.versions import DataSnapshot, ModelVersion
from container_training.work.object_store import ObjectStore
from local_stack.people.airflow_api import AirflowApi
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run, wait_until
from tests.support.bed.object_store import connect

pytestmark = [pytest.mark.docker, pytest.mark.e2e, pytest.mark.timeout(3600)]

DAG_ID = "retrain_digits"
WEAK = {"epochs": 1, "hidden_units": 8, "min_accuracy": 0}
PATIENCE_SECONDS = 1200.0


@pytest.fixture(scope="module")
def objects(stack: LocalStack) -> Iterator[ObjectStore]:
    with closing(connect(stack.settings.object_store_url)) as store:
        yield store


@pytest.fixture(scope="module")
def registry(stack: LocalStack, objects: ObjectStore) -> ModelRegistry:
    return ModelRegistry(objects, f"{stack.settings.job_bucket}/models/digits")


@pytest.fixture(scope="module")
def runs(airflow: AirflowApi) -> tuple[Run, Run]:
    """Two runs that were started at the same moment: a weak model, and a good one with approval."""
    stop_last_nights_run(airflow)
    first = Run.start(airflow, DAG_ID, WEAK)
    second = Run.start(airflow, DAG_ID, {"epochs": 20, "approval": True, "min_gain": 0.01})
    first.wait_for_success(patience_seconds=PATIENCE_SECONDS)
    wait_until(
        lambda: second.states().get("approve") == "awaiting_input",
        "somebody is asked",
        patience_seconds=PATIENCE_SECONDS,
    )
    return first, second


@pytest.fixture(scope="module")
def promoted(runs: tuple[Run, Run], registry: ModelRegistry, stack: LocalStack) -> ChampionPointer:
    """The pointer after the person said yes to the second run."""
    first, second = runs
    before = registry.read().champion
    assert before is not None
    assert before.version_id == version_of(first).version_id  # nothing changes while nobody has answered
    asked = second.question("approve")
    assert version_of(second).version_id in asked["subject"]
    assert "only the challenger has right" in asked["body"]
    scheduler_log = stack.settings.log_dir / "airflow-scheduler.log"
    # Airflow loses an answer that comes before it knows of the worker's end (apache/airflow#72716).
    wait_until(lambda: has_let_the_worker_go(second, scheduler_log), "the worker that asked has ended")
    second.answer("approve", "Approve")
    second.wait_for_success(patience_seconds=PATIENCE_SECONDS)
    pointer = registry.read().pointer
    assert pointer is not None
    return pointer


def has_let_the_worker_go(run: Run, scheduler_log: Path) -> bool:
    """Whether Airflow's scheduler has processed the end of the worker that asked a person."""
    event = f"task_id='approve', run_id='{run.run_id}', try_number=1,"
    lines = scheduler_log.read_text("utf-8").splitlines()
    return any("Received executor event" in line and event in line for line in lines)


def stop_last_nights_run(airflow: AirflowApi) -> None:
    """
    Stop the run that a DAG makes for last night when it is unpaused.

    Here it would make a good model, which no other would beat.
    """
    wait_until(lambda: airflow.has_dag(DAG_ID), f"DAG {DAG_ID} is parsed")
    airflow.unpause(DAG_ID)
    read_again(airflow)
    wait_until(lambda: len(dag_runs(airflow)) > 0, "the run of last night is there")
    (found,) = dag_runs(airflow)
    Run(airflow, DAG_ID, found["dag_run_id"]).mark_run("failed")


def read_again(airflow: AirflowApi) -> None:
    """
    Have the DAG file parsed now.

    An unpaused DAG's watcher starts when the file is next parsed.
    """
    token = airflow.call("GET", f"/api/v2/dags/{DAG_ID}")["file_token"]
    airflow.call("PUT", f"/api/v2/parseDagFile/{token}")


def version_of(run: Run) -> ModelVersion:
    return ModelVersion.model_validate(run.xcom("register"))


def decision_of(run: Run) -> Decision:
    return Decision.model_validate(run.xcom("compare.decide"))


def times(run: Run) -> tuple[str, str]:
    found: dict[str, Any] = run.api.call("GET", f"/api/v2/dags/{run.dag_id}/dagRuns/{run.run_id}")
    return found["start_date"], found["end_date"]


def test_the_first_model_is_promoted_without_a_comparison_and_without_a_person(
    runs: tuple[Run, Run],
) -> None:
    first, _ = runs

    decision, states = decision_of(first), first.states()
    assert decision.promote
    assert decision.champion is None
    assert (states["promote"], states["approve"], states["clean_up"]) == ("success", "skipped", "success")


def test_the_second_of_two_runs_began_when_the_first_had_ended_and_met_its_champion(
    runs: tuple[Run, Run], promoted: ChampionPointer
) -> None:
    first, second = runs

    assert times(second)[0] >= times(first)[1]
    assert decision_of(second).champion == version_of(first).version_id


def test_a_better_challenger_is_promoted_for_a_reason(
    runs: tuple[Run, Run], promoted: ChampionPointer
) -> None:
    decision = decision_of(runs[1])

    assert decision.promote
    assert decision.gain is not None
    assert decision.gain >= 0.01
    assert decision.p_value is not None
    assert decision.p_value <= 0.05
    assert decision.examples > 300
    assert promoted.champion == version_of(runs[1])
    assert [version.version_id for version in promoted.previous] == [version_of(runs[0]).version_id]
    assert promoted.changes[-1].why == decision.why


def test_data_model_and_image_are_named_by_generation_and_digest(
    runs: tuple[Run, Run], promoted: ChampionPointer, objects: ObjectStore
) -> None:
    snapshot = DataSnapshot.model_validate(runs[1].xcom("snapshot"))
    result = runs[1].xcom("train.collect")

    champion = promoted.champion
    assert champion.image == result["image"]
    assert "@sha256:" in champion.image
    assert champion.snapshot_uri == snapshot.manifest_uri
    assert [file.uri.rpartition("/")[2] for file in snapshot.sources] == ["digits.csv"]
    assert all("#" in uri for uri in snapshot.uris)
    assert objects.read(champion.model_uri, 10**7) == objects.read(
        f"{result['model_uri']}#{result['model_generation']}", 10**7
    )
    # Both runs saw the same data, so they share the snapshot.
    assert runs[0].xcom("snapshot") == runs[1].xcom("snapshot")


def test_the_asset_has_an_event_with_the_metrics(
    runs: tuple[Run, Run], promoted: ChampionPointer, airflow: AirflowApi
) -> None:
    events = airflow.call("GET", "/api/v2/assets/events", params={"limit": 100})["asset_events"]

    (event,) = [found for found in events if found["source_run_id"] == runs[1].run_id]
    assert event["extra"]["champion"]["version_id"] == promoted.champion.version_id
    assert event["extra"]["metrics"]["accuracy"] > 0.9


@pytest.mark.extended
def test_bad_data_start_a_run_that_ends_before_anything_is_built(
    promoted: ChampionPointer, airflow: AirflowApi, stack: LocalStack, objects: ObjectStore
) -> None:
    before = {run["dag_run_id"] for run in dag_runs(airflow)}

    def refused() -> list[dict[str, Any]]:
        return [
            run for run in dag_runs(airflow) if run["dag_run_id"] not in before and run["state"] == "failed"
        ]

    objects.write_if_changed(
        f"{stack.settings.job_bucket}/datasets/digits/digits.csv", b"1,2,3\n", "text/csv"
    )
    wait_until(lambda: len(refused()) > 0, "the watcher starts a run, which is refused")

    (found,) = refused()
    run = Run(airflow, DAG_ID, found["dag_run_id"])
    assert found["run_type"] == "asset_triggered"
    assert "a row must have 65 columns, got 3" in run.log("validate")
    assert run.tries("validate") == 1
    states = run.states()
    assert states["snapshot"] == "success"
    assert {state for task, state in states.items() if task.startswith("train.")} == {"upstream_failed"}


def test_a_rollback_restores_the_champion_before_and_a_clear_does_it_once_only(
    promoted: ChampionPointer, registry: ModelRegistry, airflow: AirflowApi
) -> None:
    run = Run.start(airflow, "rollback_digits", {"expected": promoted.champion.version_id, "why": "a test"})

    run.wait_for_success()
    restored = registry.read().pointer
    run.clear("rollback")
    wait_until(lambda: run.tries("rollback") == 2 and run.wait_for_end() == "success", "cleared task is done")

    assert restored is not None
    assert restored.champion == promoted.previous[0]
    assert (restored.changes[-1].kind, restored.changes[-1].why) == (ChangeKind.ROLLBACK, "a test")
    assert registry.read().pointer == restored


def test_a_rollback_of_what_is_not_the_champion_changes_nothing(
    promoted: ChampionPointer, registry: ModelRegistry, airflow: AirflowApi
) -> None:
    before = registry.read()

    run = Run.start(airflow, "rollback_digits", {"expected": "somebody_else"})

    assert run.wait_for_end() == "failed"
    assert "ChampionMoved: the champion must be 'somebody_else'" in run.log("rollback")
    assert registry.read() == before


def dag_runs(airflow: AirflowApi) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = airflow.call("GET", f"/api/v2/dags/{DAG_ID}/dagRuns")["dag_runs"]
    return found
