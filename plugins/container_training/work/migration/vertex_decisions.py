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
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import FieldViolation, InvalidCommand, InvalidJobSpec
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
    has_package = bool(job.packages or job.package_path)
    for violation in refused_by_vertex(described, job.vertex_options, has_package=has_package):
        is_told = refusal("the training service", violation) in told
        if not is_told and not is_unknown(violation.description):
            yield Decision(about="dag", text=refusal("Vertex AI", violation))


def refused_by_vertex(
    job: Job, options: Mapping[str, Any], *, has_package: bool = False
) -> Iterator[FieldViolation]:
    """
    Yield the rules of Vertex AI that a job breaks. Pure.

    Its image is not known yet. Some rules may be about what only a run knows (:func:`is_unknown`).
    """
    expected = not_yet(job, has_package=has_package)
    try:
        vertex_request(job, VertexOptions.of(options))
    except InvalidJobSpec as error:
        for violation in error.violations:
            if violation.field not in expected:
                yield violation


def is_unknown(message: str) -> bool:
    """Whether a message is about a value that only a run knows. Pure."""
    return "{{" in message or has_mark(message)
