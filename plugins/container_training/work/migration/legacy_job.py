"""
The job that a legacy job file or a gcloud command asks for, and what is to be decided.

A gcloud command may name a job file.

Without I/O. Source of what overrides what: gcloud, ``api_lib/ml_engine/jobs.py``, ``BuildTrainingJob``.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from container_training.work.migration.gcloud_command import GcloudCommand, Kind, similar_flag
from container_training.work.migration.gcloud_values import FlagValues
from container_training.work.migration.shell_text import ShellText
from container_training.work.submission.default_region import DEFAULT_REGION
from container_training.work.submission.job_attempt import JOB_ID_MARK
from training_api.dialects.ml_v1.packages import is_package_job
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.dialects.ml_v1.roles import ROLES
from training_api.errors import FieldViolation, InvalidCommand, InvalidJobSpec

_GCS = "gs://"
_ROLE_FLAGS = {
    "master": "masterConfig",
    "parameter-server": "parameterServerConfig",
    "worker": "workerConfig",
}
_IMAGE = "trainingInput.masterConfig.imageUri"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """
    What a person has to decide, or should know.

    :param about: the argument it stands at: a field of ``JobFields``, ``job``, ``schedule``, ``wait``,
        ``collect``, ``package``.
    """

    about: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexOption:
    """
    What a job asks for that only Vertex AI has.

    :param name: of the entry of ``vertex_options``.
    :param otherwise: what a person has to decide where the job runs elsewhere.
    """

    name: str
    value: Any
    otherwise: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyTask:
    """
    A task of an Airflow DAG.

    :param target: the variable that it is assigned to; empty: none.
    :param arguments: of every operator, which the new tasks have, too.
    """

    task_id: str
    target: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyJob:
    """
    A job to migrate.

    :param name: what it was called; may have marks of shell parts.
    :param wire: the ``Job`` resource under the wire's names, without its id.
    :param package_path: folder of the trainer that gcloud would have packaged.
    :param packages: built packages on the user's machine, which gcloud would have uploaded.
    :param staging: where to.
    :param task: the task of an Airflow DAG that asked for it; its texts are templates already.
    :param only_vertex: what only Vertex AI has of it.
    :param vertex_options: those of them that the new task has.
    """

    name: str
    wire: Mapping[str, Any]
    decisions: Sequence[Decision] = field(default=())
    package_path: str | None = None
    packages: Sequence[str] = field(default=())
    staging: str | None = None
    task: LegacyTask | None = None
    only_vertex: Sequence[VertexOption] = field(default=())
    vertex_options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyDag:
    """
    A DAG to write.

    :param name: its id, as it was given; may have marks of shell parts.
    :param given: arguments of the DAG that are known.
    :param params: its params.
    """

    name: str
    jobs: Sequence[LegacyJob]
    given: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    decisions: Sequence[Decision] = field(default=())


def job_from_file(file: Mapping[str, Any], name: str) -> LegacyJob:
    """
    Return the job of a job file. Pure.

    :param file: as ``parse_job_file`` returns it.
    :param name: what the DAG is called if the file has no ``jobId``.
    """
    wire = copy.deepcopy(dict(file))
    job_id = wire.pop("jobId", None)
    _name_folder(wire, job_id)
    return LegacyJob(name=job_id or name, wire=wire, decisions=[*about_job(wire)])


def job_from_command(
    command: GcloudCommand, text: ShellText, file: Mapping[str, Any] | None = None
) -> LegacyJob:
    """
    Return the job that gcloud would have made. Pure.

    :param file: the job file of ``--config``.
    :raises InvalidCommand: a flag's value cannot be read.
    :raises InvalidJobSpec: a value is none that its field can have.
    """
    reader = FlagValues(command, text)
    wire = copy.deepcopy(dict(file or {}))
    wire.pop("jobId", None)
    packages = reader.words("packages")
    remote = [part for part in packages if part.startswith(_GCS)]
    training = {
        **(wire.get("trainingInput") or {}),
        **reader.fields(),
        **({"packageUris": remote} if remote else {}),
    }
    if command.user_args is not None:
        training["args"] = list(command.user_args)
    for flag, config in _ROLE_FLAGS.items():
        training[config] = reader.role_config(flag, training.get(config) or {})
    if labels := reader.pairs("labels"):
        wire["labels"] = labels
    if not remote and training["masterConfig"].get("imageUri"):
        training.pop("packageUris", None)  # captured: gcloud sets those of its flags, also if there are none
    wire["trainingInput"] = {name: value for name, value in training.items() if value not in ({}, [], None)}
    _name_folder(wire, command.job)
    has_package = bool(packages or command.last("package-path"))
    return LegacyJob(
        name=command.job,
        wire=wire,
        decisions=[*_about_command(command, text), *about_job(wire, has_package=has_package, text=text)],
        package_path=command.last("package-path"),
        packages=[part for part in packages if not part.startswith(_GCS)],
        staging=command.last("staging-bucket") or wire["trainingInput"].get("jobDir"),
    )


def _name_folder(wire: dict[str, Any], job_id: str | None) -> None:
    """Let a job folder that has the job's name in it have every attempt's own."""
    training = wire.get("trainingInput") or {}
    folder = training.get("jobDir")
    if not folder or not job_id:
        return
    parts = [JOB_ID_MARK if part == job_id else part for part in folder.split("/")]
    wire["trainingInput"] = {**training, "jobDir": "/".join(parts)}


def _about_command(command: GcloudCommand, text: ShellText) -> Iterator[Decision]:
    for written in command.unknown:
        near = similar_flag(written)
        hint = f"; was {near} meant?" if near else ""
        yield Decision(about="dag", text=f"gcloud has no flag {written}{hint} It is left out")
    if command.words:
        yield Decision(
            about="dag",
            text=f"left out, as gcloud takes one job name: {text.as_written(' '.join(command.words))}",
        )
    if project := command.last("project"):
        shown = text.as_written(project)
        yield Decision(
            about="dag",
            text=f"gcloud made the job in project {shown}: extra.project of the connection training_default must be that",
        )
    if credentials := command.of_kind(Kind.CREDENTIALS):
        names = ", ".join(f"--{name}" for name in credentials)
        yield Decision(
            about="dag",
            text=f"{names}: as whom the service is asked is up to the connection training_default",
        )
    if output := command.of_kind(Kind.OUTPUT):
        names = ", ".join(f"--{name}" for name in output)
        more = "; what is in that file is not read: paste its flags" if "flags-file" in output else ""
        yield Decision(about="dag", text=f"left out, as they are about gcloud itself: {names}{more}")
    if command.last("region") is None:
        yield Decision(
            about="region",
            text="gcloud took the region from compute/region of its configuration; without one here it is us-central1",
        )
    if command.last("stream-logs") == "true":
        yield Decision(about="wait", text="--stream-logs: the log of this task has the job's lines")
    if command.last("staging-bucket") and not (command.last("packages") or command.last("package-path")):
        yield Decision(about="dag", text="--staging-bucket is left out: nothing is uploaded")


def about_job(
    wire: Mapping[str, Any],
    *,
    has_package: bool = False,
    text: ShellText | None = None,
    is_template: bool = False,
) -> Iterator[Decision]:
    """
    Yield what follows from the job itself.

    :raises InvalidJobSpec: a value is not one that its field can have.
    """
    training = wire.get("trainingInput") or {}
    if any(training.get(f"{role.wire}Type") for role in ROLES) and not training.get("scaleTier"):
        yield Decision(
            about="master_type",
            text="no scaleTier was given; machine types need CUSTOM, which is set for them",
        )
    folder = training.get("jobDir")
    if not folder:
        yield Decision(
            about="job_dir",
            text='the job names no folder. For one for each job: "{{ conn.training_default.extra_dejson.job_bucket }}/{job_id}"; its results can then be collected',
        )
    elif JOB_ID_MARK not in folder:
        yield Decision(
            about="job_dir",
            text=f"every run writes into the same folder; {JOB_ID_MARK} in it stands for the job's id",
        )
    written = json.dumps(wire, ensure_ascii=False)
    if text is not None and (text.parts_of(written) or (is_template and "{{" in written)):
        return  # the rules are about values that nobody knows yet
    yield from _broken_rules(wire, has_package=has_package)


def _broken_rules(wire: Mapping[str, Any], *, has_package: bool) -> Iterator[Decision]:
    """
    Yield the rules of the API that the job breaks.

    As far as they can be checked before there is an image.
    """
    job = described_job(wire)
    expected = not_yet(job, has_package=has_package)
    try:
        job_spec_from_wire("migrated", job)
    except InvalidJobSpec as error:
        for violation in error.violations:
            if violation.field not in expected:
                yield Decision(about="dag", text=refusal("the training service", violation))


def described_job(wire: Mapping[str, Any]) -> Job:
    """
    Return the job of a legacy job's ``wire``, with what the operators add to it.

    :raises InvalidCommand: a value is not one that its field can have.
    """
    given = dict(wire.get("trainingInput") or {})
    given.setdefault("region", DEFAULT_REGION)
    if any(given.get(f"{role.wire}Type") for role in ROLES):
        given.setdefault("scaleTier", "CUSTOM")
    try:
        return Job.model_validate({**wire, "trainingInput": given, "jobId": "migrated"})
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}, got {each['input']!r}"
            for each in error.errors()
        )
        raise InvalidCommand(f"the job has a value that its field cannot have: {wrong}") from error


def not_yet(job: Job, *, has_package: bool) -> frozenset[str]:
    """Return the fields that are only known once the image or the package is built."""
    has_package = has_package or is_package_job(job.training_input or TrainingInput())
    return frozenset({_IMAGE, "trainingInput.packageUris"} if has_package else {_IMAGE})


def refusal(who: str, violation: FieldViolation) -> str:
    """Return the sentence about a rule that the job breaks."""
    return f"{who} refuses {violation.field}: {violation.description}"
