"""The guide's table of the example DAGs has each of them, and says of each the truth."""

from __future__ import annotations

from container_training.operators.training import SubmitTrainingJobOperator
from tests.support.docs_examples import ROOT
from tests.support.example_dags import example_dags


def asks_for_a_runtime(dag_id: str) -> bool:
    """Whether a task of the DAG asks for a runtime version, which Vertex AI does not have."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(ROOT / "dags" / f"{dag_id}.py"))
    assert bag.import_errors == {}
    tasks = [task for task in bag.dags[dag_id].tasks if isinstance(task, SubmitTrainingJobOperator)]
    return any(task.runtime_version for task in tasks)


def test_each_example_dag_is_listed() -> None:
    assert set(example_dags()) == {path.stem for path in (ROOT / "dags").glob("*.py")}


def test_those_that_use_no_runtime_version_run_on_both() -> None:
    listed = example_dags()

    assert {dag_id for dag_id, (runs, _) in listed.items() if runs} == {
        dag_id for dag_id in listed if not asks_for_a_runtime(dag_id)
    }


def test_a_no_has_a_reason() -> None:
    assert [dag_id for dag_id, (runs, why) in example_dags().items() if not runs and len(why) < 20] == []


def test_examples_name_one_connection() -> None:
    """A change of it alone brings them to the other API."""
    assert [path.name for path in (ROOT / "dags").glob("*.py") if "conn_id" in path.read_text("utf-8")] == []
