"""
The project's own facet, and lineage as OpenLineage's classes.

Import it within functions only: the client is an optional dependency.

The classes come from the extra ``openlineage``; Airflow's provider of that name calls the operators, nobody
else does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import RunFacet, dataset_version_dataset, output_statistics_output_dataset

from container_training.work.results.lineage import DatasetName, JobFacts

#: Under which name a run has the facet; the specification asks for a prefix of one's own.
JOB_FACET = "containerTraining_job"


@attr.define
class TrainingJobRunFacet(RunFacet):
    """
    The training job of a run; its fields are those of ``JobFacts``.

    Its ``_schemaURL`` is that of every run facet: the fields are described in docs/lineage.md.
    """

    jobId: str  # noqa: N815  # the wire's names
    state: str | None
    jobUrl: str  # noqa: N815
    jobDir: str  # noqa: N815
    images: list[str]
    reused: bool
    content: str | None = None
    metrics: dict[str, Any] | None = None
    seconds: dict[str, float] | None = None
    cost: dict[str, Any] | None = None

    @classmethod
    def of(cls, facts: JobFacts) -> TrainingJobRunFacet:
        """Return the facet of one job."""
        values = asdict(facts)
        renamed = {name: values.pop(name) for name in ("job_id", "job_url", "job_dir")}
        return cls(
            jobId=renamed["job_id"],
            jobUrl=renamed["job_url"],
            jobDir=renamed["job_dir"],
            **{**values, "images": list(facts.images)},
        )


def make_lineage(
    inputs: Iterable[DatasetName], outputs: Iterable[DatasetName], facts: JobFacts | None
) -> OperatorLineage[Any, Any]:
    """Return the lineage of a task."""
    return OperatorLineage(
        inputs=[
            InputDataset(namespace=dataset.namespace, name=dataset.name, facets=_version_facet(dataset))
            for dataset in inputs
        ],
        outputs=[
            OutputDataset(
                namespace=dataset.namespace,
                name=dataset.name,
                facets=_version_facet(dataset),
                outputFacets=_size_facet(dataset),
            )
            for dataset in outputs
        ],
        run_facets={JOB_FACET: TrainingJobRunFacet.of(facts)} if facts else {},
    )


def _version_facet(dataset: DatasetName) -> dict[str, Any]:
    if not dataset.version:
        return {}
    return {"version": dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=dataset.version)}


def _size_facet(dataset: DatasetName) -> dict[str, Any]:
    if dataset.size_bytes is None:
        return {}
    facet = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        size=dataset.size_bytes, fileCount=1
    )
    return {"outputStatistics": facet}
