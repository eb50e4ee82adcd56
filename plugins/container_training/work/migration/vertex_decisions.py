"""
What is to be decided before a migrated job runs on Vertex AI. Without I/O.

The DAG is the same: on which of the two it runs is up to its connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from container_training.work.migration.legacy_job import (
    Decision,
    LegacyJob,
    described_job,
    not_yet,
    refusal,
)
from container_training.work.migration.shell_text import has_mark
from training_api.errors import InvalidCommand, InvalidJobSpec
from training_api.vertex_jobs.options import VertexOptions
from training_api.vertex_jobs.writer import vertex_request

_CONNECTION = Decision(
    about="dag",
    text="the connection training_default must be of the type vertex_training: it has Vertex AI's project",
)
_UNKNOWN = Decision(
    about="dag",
    text="only a run knows a value that is a number: what Vertex AI does not have is told when the job is submitted",
)


def for_vertex(job: LegacyJob) -> LegacyJob:
    """
    Return the job with its options for Vertex AI, and what that does not have.

    Each decision names the nearest choice. Values that only a run knows are not judged.
    """
    elsewhere = [each.otherwise for each in job.only_vertex]
    options = _options(job)
    decisions = [each for each in job.decisions if each not in elsewhere]
    aimed = replace(
        job, wire=_without_runtime(job.wire, options), decisions=decisions, vertex_options=options
    )
    return replace(aimed, decisions=[*decisions, _CONNECTION, *_refused(aimed)])


def _options(job: LegacyJob) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for each in job.only_vertex:
        is_part = isinstance(each.value, Mapping)
        options[each.name] = {**options.get(each.name, {}), **each.value} if is_part else each.value
    return options


def _without_runtime(wire: Mapping[str, Any], options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the job without the runtime version, in whose place it has the image that it names."""
    if "executor_image_uri" not in options:
        return wire
    training = {
        name: value
        for name, value in wire["trainingInput"].items()
        if name not in ("runtimeVersion", "pythonVersion")
    }
    return {**wire, "trainingInput": training}


def _refused(job: LegacyJob) -> Iterator[Decision]:
    try:
        described = described_job(job.wire)
    except InvalidCommand:
        yield _UNKNOWN
        return
    told = {each.text for each in job.decisions}
    expected = not_yet(described, has_package=bool(job.packages or job.package_path))
    try:
        vertex_request(described, VertexOptions.of(job.vertex_options))
    except InvalidJobSpec as error:
        for violation in error.violations:
            is_known = "{{" not in violation.description and not has_mark(violation.description)
            if (
                is_known
                and violation.field not in expected
                and refusal("the training service", violation) not in told
            ):
                yield Decision(about="dag", text=refusal("Vertex AI", violation))
