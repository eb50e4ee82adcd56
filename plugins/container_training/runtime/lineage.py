"""
The lineage that the operators report, if Airflow's OpenLineage provider is installed.

What stands for OpenLineage's classes is imported within the functions: without the extra ``openlineage``
nobody calls them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from container_training.work.results.job_report import JobReport
from container_training.work.results.lineage import (
    DatasetName,
    facts_of,
    gs_dataset,
    image_dataset,
    job_inputs,
    model_datasets,
)
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.job.results import JobResult

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """
    What a submitting task came to.

    :param is_reused: it is an earlier job, and this task made nothing.
    :param record: what its data were (``DataVersion`` as JSON).
    """

    job: Job
    is_reused: bool
    record: Sequence[Any]


def push_lineage(image: str) -> OperatorLineage[Any, Any]:
    """Return the lineage of a task that pushed ``image``."""
    from container_training.runtime.openlineage_facets import make_lineage

    return make_lineage([], _known(image_dataset(image)), None)


def submit_lineage(
    image: str | None,
    data_uris: Sequence[str],
    done: SubmittedJob | None = None,
    report: JobReport | None = None,
) -> OperatorLineage[Any, Any]:
    """
    Return the lineage of a submitting task: its images, packages, data and folder.

    :param done: ``None``: it has not come to a job, and only the arguments are known.
    """
    from container_training.runtime.openlineage_facets import make_lineage

    if done is None:
        data = [dataset for uri in data_uris for dataset in _known(gs_dataset(uri))]
        return make_lineage([*_known(image_dataset(image or "")), *data], [], None)
    training = done.job.training_input or TrainingInput()
    made = [] if done.is_reused else _known(gs_dataset(training.job_dir or ""))
    facts = facts_of(done.job, report.record_url if report else "", reused=done.is_reused)
    return make_lineage(job_inputs(training, data_uris, done.record), made, facts)


def collect_lineage(job: Job, result: JobResult) -> OperatorLineage[Any, Any]:
    """Return the lineage of a task that collected ``result``: the job's folder, and the model."""
    from container_training.runtime.openlineage_facets import make_lineage

    facts = facts_of(job, result.job_url or "", reused=result.reused, result=result)
    return make_lineage(_known(gs_dataset(result.job_dir)), model_datasets(result), facts)


def joined_lineage(
    submitted: OperatorLineage[Any, Any], collected: OperatorLineage[Any, Any] | None
) -> OperatorLineage[Any, Any]:
    """Return the lineage of a task that submitted a job and collected its results."""
    if collected is None:
        return submitted
    from airflow.providers.openlineage.extractors import OperatorLineage

    return OperatorLineage(
        inputs=submitted.inputs,
        outputs=[*submitted.outputs, *collected.outputs],
        run_facets=collected.run_facets,
    )


def _known(dataset: DatasetName | None) -> list[DatasetName]:
    return [dataset] if dataset else []
