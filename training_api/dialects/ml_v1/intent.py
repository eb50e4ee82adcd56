"""
What a task means to submit, stored before the call, and what to do on the next look.

A task may die between any two steps, and an answer may be lost. So the decision never rests on memory alone:
it is made from the intent and from the job that the service shows, whose labels say who submitted it and with
which request.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from training_api.dialects.ml_v1.resources import Job
from training_api.errors import JobConflict
from training_api.job.job_id import TaskKey, label_value
from training_api.job.labels import (
    DAG_LABEL,
    DETACHED_LABEL,
    OWNER_LABEL,
    REQUEST_LABEL,
    RUN_LABEL,
    TASK_LABEL,
)
from training_api.states import JobState

#: Under which key a task's state store keeps its intent.
INTENT_KEY = "job_intent"
_REQUEST_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """
    One job that a task means to exist.

    :param request_hash: of the job as asked for, without its id and without the labels that say whose it is.
    :param owner: a token that only this task knows; a job with another one is somebody else's.
    :param attempt: 1 for the task's first job.
    :param asked_at: seconds since the epoch when the create was sent last; ``None`` where it does not matter.
    :param known_as: the id that the service gave the job; empty: ``job_id``, or not known yet.
    :param region: where it is made, of a service with several regions; empty: where the connection says.
    """

    request_hash: str
    job_id: str
    owner: str
    attempt: int = 1
    asked_at: float | None = None
    known_as: str = ""
    region: str = ""

    @property
    def name(self) -> str:
        """The id that the service gave the job, or else the one that was chosen."""
        return self.known_as or self.job_id

    def to_json(self) -> dict[str, str | int | float | None]:
        """Return what the task's state store keeps."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: object) -> Intent | None:
        """Return the intent that ``to_json`` wrote, or ``None`` where nothing readable is stored."""
        needed = {"request_hash", "job_id", "owner", "attempt"}  # what the first version stored
        known = needed | {"asked_at", "known_as", "region"}
        if not isinstance(stored, dict) or not needed <= set(stored) <= known:
            return None
        return cls(**stored)

    def next(self, job_id: str, request_hash: str, region: str = "") -> Intent:
        """Return the intent of the following attempt, of the same owner."""
        return Intent(
            request_hash=request_hash,
            job_id=job_id,
            owner=self.owner,
            attempt=self.attempt + 1,
            region=region,
        )


class Step(StrEnum):
    """What follows from a look at the job of an intent."""

    SUBMIT = "SUBMIT"  #: there is no such job
    ADOPT = "ADOPT"  #: it is ours, the same request, and lives or succeeded
    NEXT_ATTEMPT = "NEXT_ATTEMPT"  #: it is ours, but ended without a result, or was asked for something else


def request_hash(job: Job, options: Mapping[str, Any] | None = None) -> str:
    """Return the first 16 hex digits of the SHA-256 of ``job`` and ``options`` as sent. Pure."""
    wire = job.model_copy(update={"job_id": None}).to_wire()
    if options:
        wire["options"] = options
    text = json.dumps(wire, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_REQUEST_LENGTH]


def owner_labels(key: TaskKey, intent: Intent, *, detached: bool = False) -> dict[str, str]:
    """Return the labels that tie a job to the task that submits it."""
    return {
        **({DETACHED_LABEL: "true"} if detached else {}),
        DAG_LABEL: label_value(key.dag_id),
        TASK_LABEL: label_value(key.task_id),
        RUN_LABEL: label_value(key.run_id),
        OWNER_LABEL: intent.owner,
        REQUEST_LABEL: intent.request_hash,
    }


def is_owned(job: Job, owner: str) -> bool:
    """Whether ``job`` carries the token ``owner``; nobody owns with an empty token."""
    return bool(owner) and (job.labels or {}).get(OWNER_LABEL) == owner


def is_detached(job: Job) -> bool:
    """Whether ``job`` is meant to outlive its DAG run."""
    return DETACHED_LABEL in (job.labels or {})


def owner_within(job: Job, dag_id: str, run_id: str) -> str:
    """Return the owner token of ``job`` if this DAG run submitted it, else an empty string."""
    labels = job.labels or {}
    is_of_run = labels.get(DAG_LABEL) == label_value(dag_id) and labels.get(RUN_LABEL) == label_value(run_id)
    return labels.get(OWNER_LABEL, "") if is_of_run else ""


def why_left_alone(job: Job, owner: str, *, is_success: bool = False) -> str:
    """
    Return why the end of a task must not cancel ``job``; empty: cancel it. Pure.

    :param owner: token of the DAG run's submission; empty if the run did not submit the job.
    :param is_success: the task was marked as successful: a job that is meant to outlive its run is then left
        alone.
    """
    if not is_owned(job, owner):
        return "this DAG run did not submit it"
    if job.state is not None and job.state.is_terminal:
        return f"it is {job.state}"
    if is_success and is_detached(job):
        return "it is meant to outlive its run"
    return ""


def is_of_task(job: Job, key: TaskKey) -> bool:
    """Tell whether the task ``key`` submitted ``job``, perhaps in an earlier run of that name."""
    wanted = {DAG_LABEL: key.dag_id, TASK_LABEL: key.task_id, RUN_LABEL: key.run_id}
    return all((job.labels or {}).get(label) == label_value(value) for label, value in wanted.items())


def next_step(key: TaskKey, intent: Intent, wanted_hash: str, found: Job | None) -> Step:
    """
    Return what to do about ``found``, the job that has the intent's id now.

    Pure.

    :param wanted_hash: of the request as it is today; a cleared task may ask for something else than before.
    :raises JobConflict: the id belongs to somebody else, or our own job with another request still runs.
    """
    if found is None:
        return Step.SUBMIT
    if not is_owned(found, intent.owner):
        if is_of_task(found, key) and found.state and found.state.is_terminal:
            # The run was deleted and made again under its name, or the store has forgotten: the old job is
            # history.
            return Step.NEXT_ATTEMPT
        raise JobConflict(
            f"job id {intent.job_id!r} is taken by a job that this task did not submit (state "
            f"{found.state}); choose another job_id, or cancel that job if it belongs to an earlier run of "
            "the same name"
        )
    state = found.state or JobState.QUEUED
    if state in (JobState.FAILED, JobState.CANCELLED, JobState.CANCELLING):
        return Step.NEXT_ATTEMPT
    if (found.labels or {}).get(REQUEST_LABEL) == wanted_hash:
        return Step.ADOPT
    if state.is_terminal:
        return Step.NEXT_ATTEMPT
    raise JobConflict(
        f"job {found.job_id!r} of this task is still {state} with another request: it was submitted with "
        f"request {(found.labels or {}).get(REQUEST_LABEL)}, the task now asks for request {wanted_hash} "
        "(its image, arguments or machine changed since); cancel it or wait for its end, then clear this "
        "task"
    )
