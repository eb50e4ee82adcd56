"""
What the service asks a dialect of its API, beside what its routes do.

A job is neutral (``JobSpec``). But its containers are told who they are in the words of the dialect, its
errors are written in them, and its trials are made by their rules. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from training_api.filtering import Filter, parse_filter
from training_api.job.accelerators import Accelerator
from training_api.job.cluster import ReplicaId
from training_api.job.job_spec import JobSpec
from training_api.job.restarts import RestartScope
from training_api.job.service_agent import ServiceAgent


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaContext:
    """
    A replica that is about to start, for its environment.

    :param request: the job's, or the trial's, in the canonical JSON of its dialect.
    :param trial_id: ``1`` and up in a tuning job, else empty.
    :param given: variables that its containers have from the service, whatever their dialect.
    """

    spec: JobSpec
    request: Mapping[str, Any]
    replica: ReplicaId
    trial_id: str = ""
    given: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFailure:
    """
    A replica that ended badly.

    :param exit_code: its status; ``None``: unknown.
    :param is_lost: the engine, or its machine, stopped while it ran.
    :param is_removed: its container is gone from the engine.
    """

    replica: ReplicaId
    exit_code: int | None = None
    out_of_memory: bool = False
    is_lost: bool = False
    is_removed: bool = False


class ResourceKind(StrEnum):
    """What of a dialect has a resource name."""

    JOB = "job"
    TUNING_JOB = "tuning_job"
    PIPELINE = "pipeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """
    What is named.

    :param region: where it is said to be; empty: nowhere in particular.
    """

    kind: ResourceKind
    project: str
    region: str
    id: str


class JobField(StrEnum):
    """What of a job a list can be filtered by."""

    JOB_ID = "job_id"
    #: What the caller calls it, where that is not the id; it may be compared with a pattern.
    DISPLAY_NAME = "display_name"
    STATE = "state"
    CREATED = "created"
    STARTED = "started"
    ENDED = "ended"
    #: A map: the name in a filter is a prefix, ``labels.``, which a label's key follows.
    LABELS = "labels"


def _as_it_is(text: str, variables: Mapping[str, str]) -> str:
    del variables
    return text


def _no_name(request: Mapping[str, Any]) -> str:
    del request
    return ""


def _neutral_name(replica: ReplicaId) -> str:
    return replica.task_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """
    One dialect of the API.

    :param name: as jobs carry it.
    :param title: what people call the API.
    :param environment: what a replica's containers are told of their job, as variables.
    :param variables: all names that ``environment`` may use.
    :param trial: a tuning job's specification and request, a number, and hyperparameters -> the trial's
        specification and request.
    :param host_name: a job's id and a replica -> the replica's name in its job's network.
    :param agent: the account that pulls a job's images, and whose rights its containers have by default.
    :param task_name: a replica -> its name in the job's log.
    :param replica_name: a replica -> its name in messages: ``worker 1``.
    :param restart_scope: what is started again after such a failure.
    :param failure_text: the sentence about a replica in the job's error.
    :param quota_text: a project, the accelerators that a job wants, and how many there are -> the sentence
        about a quota that is too small.
    :param fields: what the service may find wrong in a specification -> the field's path in a request.
    :param filter_fields: names in the filter of a list; those of maps end with a dot.
    :param summary: what the tables of the ops API show of a request, as ``trainingInput``
        (``training_api/fleet/wire.py``); it has ``hyperparameters`` if the job tunes.
    :param resource_name: a resource -> its name, ``projects/P/jobs/ID``.
    :param as_asked: a job's specification and request -> the resource as it was submitted.
    :param display_name: a request -> what its submitter calls the job; empty: nothing but its id.
    :param read_filter: the filter of a list -> its tree, in which states have their neutral words.
    :param expanded: a word of a command, and the variables of its container -> the word that is run.
    :param bucket_folder: where containers see the objects that their words name, as files; empty: nowhere.
    """

    name: str
    title: str
    environment: Callable[[ReplicaContext], dict[str, str]]
    variables: frozenset[str]
    trial: Callable[[JobSpec, Mapping[str, Any], int, Mapping[str, str]], tuple[JobSpec, dict[str, Any]]]
    host_name: Callable[[str, ReplicaId], str]
    restart_scope: Callable[[ReplicaFailure], RestartScope]
    failure_text: Callable[[ReplicaFailure], str]
    quota_text: Callable[[str, Mapping[Accelerator, int], int], str]
    agent: ServiceAgent
    fields: Mapping[str, str]
    filter_fields: Mapping[str, JobField]
    summary: Callable[[Mapping[str, Any]], dict[str, Any]]
    resource_name: Callable[[Resource], str]
    as_asked: Callable[[JobSpec, Mapping[str, Any]], dict[str, Any]]
    display_name: Callable[[Mapping[str, Any]], str] = _no_name
    read_filter: Callable[[str], Filter | None] = parse_filter
    expanded: Callable[[str, Mapping[str, str]], str] = _as_it_is
    bucket_folder: str = ""
    task_name: Callable[[ReplicaId], str] = _neutral_name
    replica_name: Callable[[ReplicaId], str] = str

    def word(self, field: str, parts: int = 1) -> str:
        """Return what users call ``field``: the last part, or parts, of its path."""
        return ".".join(self.fields[field].split(".")[-parts:])

    def path(self, field: str) -> str:
        """Return the path in a request of ``field``, or of an element of it: ``packages.uris[2]``."""
        name, bracket, index = field.partition("[")
        return f"{self.fields.get(name, name)}{bracket}{index}"


#: The dialects of a service, by name.
Dialects = Mapping[str, Dialect]
