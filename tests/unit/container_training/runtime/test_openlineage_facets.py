"""Lineage as OpenLineage's classes, as its provider sends them."""

from __future__ import annotations

import json

import pytest
from openlineage.client.serde import Serde

from container_training.runtime.openlineage_facets import JOB_FACET, TrainingJobRunFacet, make_lineage
from container_training.work.results.lineage import DatasetName, JobFacts

FACTS = JobFacts(
    job_id="digits_1",
    state="SUCCEEDED",
    job_url="http://training.test/jobs/digits_1",
    job_dir="gs://bucket/jobs/digits_1",
    images=("gcr.io/p/a:1", "gcr.io/p/b:1"),
    reused=False,
    metrics={"accuracy": 0.9},
)


def test_the_facet_has_every_fact_under_the_names_of_the_wire() -> None:
    facet = json.loads(Serde.to_json(TrainingJobRunFacet.of(FACTS)))

    assert {name: value for name, value in facet.items() if not name.startswith("_")} == {
        "jobId": "digits_1",
        "state": "SUCCEEDED",
        "jobUrl": "http://training.test/jobs/digits_1",
        "jobDir": "gs://bucket/jobs/digits_1",
        "images": ["gcr.io/p/a:1", "gcr.io/p/b:1"],
        "reused": False,
        "metrics": {"accuracy": 0.9},
    }


def test_a_task_without_a_job_has_no_facet_of_one() -> None:
    lineage = make_lineage([], [], None)

    assert (lineage.inputs, lineage.outputs, lineage.run_facets) == ([], [], {})
    assert set(make_lineage([], [], FACTS).run_facets) == {JOB_FACET}


@pytest.mark.parametrize(
    ("dataset", "facets", "output_facets"),
    [
        (DatasetName(namespace="gs://b", name="x"), set(), set()),
        (DatasetName(namespace="gs://b", name="x", version="7"), {"version"}, set()),
        (DatasetName(namespace="gs://b", name="x", size_bytes=0), set(), {"outputStatistics"}),
    ],
)
def test_a_data_set_says_what_is_known_of_it(
    dataset: DatasetName, facets: set[str], output_facets: set[str]
) -> None:
    lineage = make_lineage([dataset], [dataset], None)

    (read,), (written,) = lineage.inputs, lineage.outputs
    assert (read.namespace, read.name) == ("gs://b", "x")
    assert set(read.facets) == set(written.facets) == facets
    assert set(written.outputFacets) == output_facets


def test_an_empty_file_is_one_file_of_no_bytes() -> None:
    (written,) = make_lineage([], [DatasetName(namespace="gs://b", name="x", size_bytes=0)], None).outputs

    statistics = written.outputFacets["outputStatistics"]
    assert (statistics.size, statistics.fileCount) == (0, 1)
