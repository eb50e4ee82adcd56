"""
The faults that an administrator can request, and when a rule applies. Pure.

Ours: AI Platform Training has nothing of the kind. What the faults imitate is what its clients have to live
with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field, StrictBool

from training_api.errors import FieldViolation, InvalidRequest
from training_api.wire import WireModel

_MAX_SECONDS = 86_400.0


class FaultKind(StrEnum):
    """What goes wrong."""

    ERROR = "error"  #: a call is answered with an error, and does nothing
    DELAY = "delay"  #: a call is answered late
    DROP = "drop"  #: a call does what it should, and its answer is lost
    STOCK_OUT = "stockOut"  #: there is no room: jobs stay QUEUED
    SLOW_PREPARING = "slowPreparing"  #: jobs are PREPARING for longer
    LOSE_REPLICA = "loseReplica"  #: a container is killed, as if its machine had been taken away


#: Kinds that are about calls of the API; the others are about jobs.
OF_CALLS = frozenset({FaultKind.ERROR, FaultKind.DELAY, FaultKind.DROP})
#: Draws the chance of a call.
Chance = Callable[[], float]
_Seconds = Annotated[float, Field(ge=0, le=_MAX_SECONDS)]


class Fault(WireModel):
    """
    One fault, as it is asked for and shown. ``docs/fault-injection.md`` has the fields.

    :param methods: of calls: ``jobs.create`` ...; empty: all.
    :param job_id: only this job; ``*`` and ``?`` stand for any characters.
    :param code: of an error: its HTTP status.
    :param retry_after_seconds: of an error: what its Retry-After header asks for.
    :param seconds: of a delay or slow preparing: how long; of a lost replica: how long after its start.
    :param replica: of a lost replica: which, as the job's log names it.
    :param times: how often; default: until it is removed.
    :param for_seconds: how long after it was asked for; default: until it is removed.
    :param share: of calls: the share that it happens to, by chance.
    """

    kind: FaultKind
    methods: list[str] = []
    job_id: str = "*"
    code: int | None = Field(default=None, ge=400, le=599)
    retry_after_seconds: _Seconds | None = None
    seconds: _Seconds | None = None
    replica: str = "master-replica-0"
    times: int | None = Field(default=None, ge=1)
    for_seconds: _Seconds | None = None
    share: float = Field(default=1.0, gt=0, le=1)


class SetFault(WireModel):
    """A fault that is set, and how often it has happened."""

    id: str
    fault: Fault
    happened: int
    is_over: StrictBool = False


@dataclass(frozen=True, slots=True)
class Call:
    """
    One call of the API.

    Its method as the API names it, and the job that its path names, if any.
    """

    method: str
    job_id: str = ""


_JOB_VERBS = {
    ("GET", ""): "jobs.get",
    ("PATCH", ""): "jobs.patch",
    ("POST", "cancel"): "jobs.cancel",
    ("GET", "getIamPolicy"): "jobs.getIamPolicy",
    ("POST", "setIamPolicy"): "jobs.setIamPolicy",
    ("POST", "testIamPermissions"): "jobs.testIamPermissions",
}
_OF_ALL_JOBS = {"GET": "jobs.list", "POST": "jobs.create"}
_LOGS, _CONFIG = "entries.list", "projects.getConfig"
METHODS = frozenset({*_JOB_VERBS.values(), *_OF_ALL_JOBS.values(), _LOGS, _CONFIG})


def call_of(http_method: str, path: str) -> Call | None:
    """
    Return which method of the API a request calls. Pure.

    ``None``: no faults can be set for it.
    """
    parts = path.strip("/").split("/")
    match parts:
        case ["v2", "entries:list"] if http_method == "POST":
            return Call(_LOGS)
        case ["v1", "projects", project] if http_method == "GET" and project.endswith(":getConfig"):
            return Call(_CONFIG)
        case ["v1", "projects", _, "jobs"] if http_method in _OF_ALL_JOBS:
            return Call(_OF_ALL_JOBS[http_method])
        case ["v1", "projects", _, "jobs", job]:
            job_id, _, verb = job.partition(":")
            method = _JOB_VERBS.get((http_method, verb))
            return Call(method, job_id) if method else None
    return None


def check(fault: Fault) -> None:
    """
    Check the fields of a fault.

    :raises InvalidRequest: the kind needs a field that is missing, or does not read one that is set.
    """
    violations = []
    needed = _NEEDED[fault.kind]
    for name, alias in needed.items():
        if getattr(fault, name) is None:
            violations.append(
                FieldViolation(field=alias, description=f"{alias} is required for {fault.kind}")
            )
    unread = fault.model_fields_set - {"kind", "job_id", "for_seconds"} - _READ[fault.kind]
    for name in sorted(unread):
        alias = Fault.model_fields[name].alias or name
        violations.append(FieldViolation(field=alias, description=f"{alias} means nothing for {fault.kind}"))
    for method in fault.methods:
        if method not in METHODS:
            known = ", ".join(sorted(METHODS))
            violations.append(
                FieldViolation(field="methods", description=f"methods must be of {known}, got {method!r}")
            )
    if violations:
        raise InvalidRequest(violations)


def is_over(fault: Fault, *, happened: int, age: timedelta) -> bool:
    """Whether ``fault`` does not happen any more. Pure."""
    if fault.times is not None and happened >= fault.times:
        return True
    return fault.for_seconds is not None and age.total_seconds() >= fault.for_seconds


def hits_call(fault: Fault, call: Call, chance: float) -> bool:
    """
    Tell whether ``fault`` happens to ``call``. Pure.

    ``chance``: random, from 0 up to but not including 1.
    """
    return (
        fault.kind in OF_CALLS
        and (not fault.methods or call.method in fault.methods)
        and hits_job(fault, call.job_id)
        and chance < fault.share
    )


def hits_job(fault: Fault, job_id: str) -> bool:
    """
    Tell whether ``fault`` is about ``job_id``. Pure.

    A call without a job is affected only by faults without a job.
    """
    return fault.job_id == "*" if not job_id else fnmatchcase(job_id, fault.job_id)


def keeps_preparing(fault: Fault, preparing_at: datetime | None, now: datetime) -> bool:
    """Whether a job that prepares since then has to go on doing nothing. Pure."""
    return preparing_at is not None and now - preparing_at < timedelta(seconds=fault.seconds or 0.0)


def is_to_be_lost(fault: Fault, task_name: str, started_at: datetime | None, now: datetime) -> bool:
    """Whether a container that runs since ``started_at`` has to be killed now. Pure."""
    if fault.kind is not FaultKind.LOSE_REPLICA or task_name != fault.replica or started_at is None:
        return False
    return now - started_at >= timedelta(seconds=fault.seconds or 0.0)


_NEEDED: Mapping[FaultKind, Mapping[str, str]] = {
    FaultKind.ERROR: {"code": "code"},
    FaultKind.DELAY: {"seconds": "seconds"},
    FaultKind.DROP: {},
    FaultKind.STOCK_OUT: {},
    FaultKind.SLOW_PREPARING: {"seconds": "seconds"},
    FaultKind.LOSE_REPLICA: {"seconds": "seconds"},
}
_READ: Mapping[FaultKind, frozenset[str]] = {
    FaultKind.ERROR: frozenset({"methods", "code", "retry_after_seconds", "share", "times"}),
    FaultKind.DELAY: frozenset({"methods", "seconds", "share", "times"}),
    FaultKind.DROP: frozenset({"methods", "share", "times"}),
    FaultKind.STOCK_OUT: frozenset(),
    FaultKind.SLOW_PREPARING: frozenset({"seconds"}),
    FaultKind.LOSE_REPLICA: frozenset({"seconds", "replica", "times"}),
}
