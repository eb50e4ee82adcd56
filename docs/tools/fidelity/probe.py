"""
Sends samples through the code that serves jobs: what is refused, what is answered.

A path names a field of a job: ``trainingInput.hyperparameters.params[].type``; ``[]`` is the first element of
a list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from docs.tools.fidelity.notes import Sample
from training_api.causes import Cause
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.errors import FieldViolation, InvalidJobSpec
from training_api.states import JobState
from training_service.api.ml_v1.writer import job_of
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord
from training_service.use_cases.jobs import JobView

_WHEN = datetime(2026, 1, 31, 12, tzinfo=UTC)
#: The smallest good job.
_MINIMAL = {
    "jobId": "job",
    "trainingInput": {"masterConfig": {"imageUri": "registry.example/project/trainer:1"}},
}


def _request(path: str, sample: Sample) -> dict[str, Any]:
    """Return the minimal job with ``sample`` at ``path``."""
    job: dict[str, Any] = json.loads(json.dumps(_MINIMAL))
    for where, what in {**sample.beside, path: sample.value}.items():
        at: Any = job
        *parents, name = where.split(".")
        for parent in parents:
            element = parent.removesuffix("[]")
            at = at.setdefault(element, {}) if element == parent else at.setdefault(element, [{}])[0]
        at[name] = what
    return job


def is_known(path: str) -> bool:
    """Whether the wire has the field: ``null`` is good for every field that it has."""
    try:
        Job.model_validate(_request(path, Sample(value=None)))
    except ValidationError:
        return False
    return True


def refusal_of(path: str, sample: Sample) -> tuple[str, str] | None:
    """Return the refused field, this one or one above it, and the words; ``None``: not refused."""
    try:
        job = Job.model_validate(_request(path, sample))
    except ValidationError as error:
        return indexed(path), str(error.errors()[0]["msg"])
    for violation in _violations(job):
        if f"{indexed(path)}.".startswith((f"{violation.field}.", f"{violation.field}[")):
            return violation.field, violation.description.partition("; got ")[0]
    return None


def _violations(job: Job) -> Sequence[FieldViolation]:
    try:
        job_spec_from_wire("project", job)
    except InvalidJobSpec as error:
        return error.violations
    return ()


def is_echoed(path: str, sample: Sample) -> bool:
    """Whether a job created with the sample at ``path`` is answered with the same value there."""
    sent = _request(path, sample)
    try:
        record = _record(Job.model_validate(sent), JobState.QUEUED)
    except (InvalidJobSpec, ValidationError):
        return False
    answer = job_of(JobView(record=record)).to_wire()
    return list(_values(answer, path)) == list(_values(sent, path))


def _record(job: Job, state: JobState) -> JobRecord:
    return JobRecord(
        uid="uid",
        sequence=1,
        spec=job_spec_from_wire("project", job),
        request=(job.training_input or TrainingInput()).to_wire(),
        state=state,
        created_at=_WHEN,
        preparing_at=_WHEN,
        running_at=_WHEN,
        ended_at=_WHEN,
        reason=Reason(cause=Cause.UNKNOWN, message="It failed."),
    )


def answered_paths() -> set[str]:
    """Return the path of every field in the answer for a job that has all that can be set."""
    records = (_record(Job.model_validate(_MINIMAL), state) for state in JobState)
    return set(_paths(job_of(JobView(record=record, position=1)).to_wire() for record in records))


def _values(tree: Any, path: str) -> Iterator[Any]:
    """Yield what ``tree`` has at ``path``; nothing where it has nothing."""
    name, _, rest = path.partition(".")
    found = tree.get(name.removesuffix("[]")) if isinstance(tree, Mapping) else None
    for value in (found or []) if name.endswith("[]") else [found]:
        if rest:
            yield from _values(value, rest)
        elif value is not None:
            yield value


def _paths(trees: Iterable[Any], place: str = "") -> Iterator[str]:
    """Yield the path of every field in ``trees``, resources of one kind."""
    for tree in trees:
        for name, value in tree.items() if isinstance(tree, Mapping) else ():
            path = join(place, name)
            yield path
            yield from _paths(value, f"{path}[]") if isinstance(value, list) else _paths([value], path)


def join(place: str, name: str) -> str:
    """Return the path of the field ``name`` at ``place``."""
    return f"{place}.{name}" if place else name


def indexed(path: str) -> str:
    """Return ``path`` as violations name it: ``params[0].type``."""
    return path.replace("[]", "[0]")
