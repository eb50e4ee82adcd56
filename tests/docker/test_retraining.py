"""The retraining DAG from data to champion on real parts, by ``DAG.test()``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG

from container_training.work.models.champion import ChangeKind
from container_training.work.models.promotion import Decision
from container_training.work.models.registry import ModelRegistry
from container_training.work.models.versions import HoldOut, ModelVersion
from container_training.work.object_store import ObjectStore
from local_stack.parts.airflow import airflow_environment
from local_stack.parts.base_image import BaseImage
from local_stack.people.credentials import airflow_token
from local_stack.stack import LocalStack

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1800), pytest.mark.extended]

DAGS = Path(__file__).parents[2] / "dags"
WEAK = {"epochs": 1, "hidden_units": 8, "min_accuracy": 0}


@pytest.fixture
def connections(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stack's connections, as its own Airflow has them."""
    environment = airflow_environment(
        stack.settings,
        base_image=BaseImage.name_of(stack.settings),
        token=airflow_token(stack.settings),
    )
    for name, value in environment.items():
        if name.startswith(("AIRFLOW_CONN_", "STORAGE_", "DOCKER_HOST", "GOOGLE_")):
            monkeypatch.setenv(name, value)


def read(name: str) -> DAG:
    bag = DagBag(str(DAGS / f"{name}.py"), collect_dags=False)
    bag.collect_dags(str(DAGS / f"{name}.py"))
    assert bag.import_errors == {}
    return bag.dags[name]  # type: ignore[return-value]


class RunInPlace:
    """
    A run by ``DAG.test()`` that has ended.

    The DAG is read anew, because a run leaves its params in it.
    """

    def __init__(self, register_dag: Callable[[DAG], DAG], name: str, **conf: Any) -> None:
        self._run = register_dag(read(name)).test(run_conf=conf)
        self.state = str(self._run.state)
        self.states = {task.task_id: str(task.state) for task in self._run.get_task_instances()}

    def xcom(self, task_id: str) -> Any:
        """Return what a task returned."""
        (found,) = [task for task in self._run.get_task_instances() if task.task_id == task_id]
        return found.xcom_pull(task_ids=task_id)

    @property
    def decision(self) -> Decision:
        """What was decided."""
        return Decision.model_validate(self.xcom("compare.decide"))

    @property
    def version(self) -> ModelVersion:
        """The challenger."""
        return ModelVersion.model_validate(self.xcom("register"))


@pytest.mark.usefixtures("connections")
def test_a_model_is_promoted_a_worse_one_refused_and_the_first_restored(
    stack: LocalStack, stack_store: ObjectStore, register_dag: Callable[[DAG], DAG]
) -> None:
    registry = ModelRegistry(stack_store, f"{stack.settings.job_bucket}/models/digits")

    first = RunInPlace(register_dag, "retrain_digits", **WEAK)
    second = RunInPlace(register_dag, "retrain_digits", epochs=10, min_gain=0.01)
    promoted = registry.read().pointer
    third = RunInPlace(register_dag, "retrain_digits", **WEAK)
    refused = registry.read().pointer
    back = RunInPlace(register_dag, "rollback_digits", expected=second.version.version_id)
    restored = registry.read().pointer

    # The first has nobody to beat; nobody is asked.
    assert (first.decision.promote, first.decision.champion) == (True, None)
    assert (first.states["promote"], first.states["approve"]) == ("success", "skipped")

    # The second is better on rows that neither has seen, and that is no chance.
    decision = second.decision
    assert decision.promote
    assert decision.champion == first.version.version_id
    assert decision.examples > 300
    assert decision.gain is not None
    assert decision.gain > 0.01
    assert decision.p_value is not None
    assert decision.level is not None
    assert decision.p_value <= decision.level < 0.05
    assert (first.decision.look, decision.look, third.decision.look) == (None, 1, 2)
    hold_outs = {run.version.hold_out for run in (first, second, third)}
    assert hold_outs == {HoldOut(rule="content", fraction=0.2)}
    assert promoted is not None
    assert promoted.champion == second.version
    assert promoted.changes[-1].why == decision.why

    # Everything is named by digest and generation, and the same data are the same snapshot.
    result = second.xcom("train.collect")
    assert "@sha256:" in second.version.image
    assert second.version.image == result["image"]
    assert first.xcom("snapshot") == second.xcom("snapshot")
    assert second.version.snapshot_uri == second.xcom("snapshot")["manifest_uri"]
    assert stack_store.read(second.version.model_uri, 10**7) == stack_store.read(
        f"{result['model_uri']}#{result['model_generation']}", 10**7
    )

    # The third is worse: the champion stays, and its data were compared with those of the champion.
    assert not third.decision.promote
    assert third.decision.champion == second.version.version_id
    assert (third.state, third.states["promote"], third.states["clean_up"]) == (
        "success",
        "skipped",
        "success",
    )
    assert "drift" in {check["name"] for check in third.xcom("validate")["checks"]}
    assert refused == promoted

    assert back.state == "success"
    assert restored is not None
    assert restored.champion == first.version
    assert restored.changes[-1].kind is ChangeKind.ROLLBACK
