"""The lineage of tasks, and operators that need no OpenLineage."""

from __future__ import annotations

from container_training.operators.results import CollectTrainingResultsOperator
from container_training.operators.training import SubmitTrainingJobOperator
from tests.support.fresh_airflow import FreshAirflow

DIGEST = "sha256:" + "a" * 64
IMAGE = f"127.0.0.1:5000/demo/digits@{DIGEST}"


def test_before_it_came_to_a_job_a_task_tells_what_its_arguments_say() -> None:
    submit = SubmitTrainingJobOperator(task_id="submit", image=IMAGE, data_uris="gs://bkt/a gs://bkt/b")

    for lineage in (
        submit.get_openlineage_facets_on_start(),
        submit.get_openlineage_facets_on_complete(None),
    ):
        assert [dataset.name for dataset in lineage.inputs] == ["demo/digits", "a", "b"]
        assert (lineage.outputs, lineage.run_facets) == ([], {})


def test_a_collect_that_collected_nothing_tells_nothing() -> None:
    collect = CollectTrainingResultsOperator(task_id="collect", job_id="a")

    assert collect.get_openlineage_facets_on_complete(None) is None


def test_the_operators_work_without_openlineage(fresh_airflow: FreshAirflow) -> None:
    code = """
import sys
sys.modules["openlineage"] = None
sys.modules["airflow.providers.openlineage"] = None
import container_training.operators.image, container_training.operators.training, container_training.operators.results
import container_training.pipeline
print('"as well"')
"""

    assert fresh_airflow.run(code) == "as well"
