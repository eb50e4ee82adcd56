"""
What decides a job's result: the relevant part of its request, and its data's generations.

Two jobs with the same content compute the same thing, as far as the request says it. So the content of a job
is written on it, as a label, and an earlier job is found by it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from training_api.clients.backend import NO_OPTIONS
from training_api.dialects.ml_v1.resources import (
    HyperparameterSpec,
    Job,
    ReplicaConfig,
    ScaleTier,
    TrainingInput,
)
from training_api.dialects.ml_v1.roles import ROLES, machines_of
from training_api.dialects.ml_v1.search import study_from_wire
from training_api.job.image_ref import parse_image_ref
from training_api.job.packages.python_package import runtime_of
from training_api.job.results import ResultModel
from training_api.states import JobState

if TYPE_CHECKING:
    from training_api.job.job_spec import JobSpec

#: On a job whose content is known. A label's value has at most 63 characters of ``[a-z0-9_-]``, a SHA-256 64
#: of them.
CONTENT_LABEL = "airflow-content"
_HASH_LENGTH = 32
#: What of a request does not decide what is computed: where the job runs and its results go, how long it may
#: take, whether a person may look in.
_LEFT_OUT = ("region", "jobDir", "scheduling", "enableWebAccess")
#: The options of Vertex AI that decide what a container computes; the others say where and at which price.
_DECIDING = frozenset({"env", "env_of_roles", "executor_image_uri", "conditional_parameters", "nfs_mounts"})
#: What is compared by what it comes to: either API shows it in its own words.
_SPELLED = frozenset(
    {"scaleTier", "args", "hyperparameters"}
    | {f"{fields.wire}{what}" for fields in ROLES for what in ("Type", "Count", "Config")}
)
#: How much of names and generations is kept; Airflow's state store takes 65,535 bytes a value.
_MAX_RECORD_CHARACTERS = 40_000


class DataVersion(ResultModel):
    """
    What was at one address when a job was submitted.

    :param objects: how many; at least one.
    :param digest: SHA-256 of their names and generations, in hexadecimal.
    :param generations: object name -> generation; ``None`` where there are too many to keep.
    """

    uri: str
    objects: int
    digest: str
    generations: dict[str, int] | None = None

    @classmethod
    def of(cls, uri: str, generations: Iterable[tuple[str, int]]) -> DataVersion:
        """
        Return the version of the objects below ``uri``. Pure.

        :param generations: name and generation, each object once, in any order.
        """
        found = dict(generations)
        text = json.dumps(sorted(found.items()), separators=(",", ":"))
        return cls(
            uri=uri,
            objects=len(found),
            digest=hashlib.sha256(text.encode()).hexdigest(),
            generations=found if len(text) <= _MAX_RECORD_CHARACTERS else None,
        )


def data_record(versions: Sequence[DataVersion]) -> list[JsonValue]:
    """
    Return ``versions`` as JSON values. Pure.

    Without single generations if there are too many.
    """
    room = _MAX_RECORD_CHARACTERS
    record: list[JsonValue] = []
    for version in versions:
        value = version.model_dump(mode="json")
        room -= len(json.dumps(value))
        record.append(value if room >= 0 else {**value, "generations": None})
    return record


def content_hash(
    training: TrainingInput, data: Sequence[DataVersion], options: Mapping[str, Any] = NO_OPTIONS
) -> str:
    """
    Return 32 hex digits that two jobs share if they compute the same from the same data.

    Pure. Compared is all of the request but region, jobDir, scheduling and enableWebAccess, and the options
    that decide what a container computes. An image counts by its digest, whatever it is called. A job of
    Vertex AI has the same as its like of AI Platform Training.

    :param data: of every address that the job reads, its packages included.
    :param options: what the request has that only some APIs know, such as variables of the environment.
    """
    left_out = _SPELLED.union(_LEFT_OUT)
    kept = {name: value for name, value in training.to_wire().items() if name not in left_out}
    search = training.hyperparameters
    content = [
        2,
        kept,
        _machines(training),
        _search(search) if search else None,
        sorted((version.uri, version.digest) for version in data),
        {name: value for name, value in options.items() if name in _DECIDING and value},
    ]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]


def _machines(training: TrainingInput) -> list[Any]:
    """Return what each role with replicas runs, and on what; BASIC_TPU has nothing but its name."""
    tier = training.scale_tier or ScaleTier.BASIC
    roles = [role for role in machines_of(training) if role.count > 0 and role.machine]
    if not roles:
        return [tier.value, training.to_wire()]
    master = (roles[0].config or ReplicaConfig()).image_uri
    return [
        [
            role.fields.wire,
            role.machine,
            role.count,
            _config(training, role.config or ReplicaConfig(), master),
        ]
        for role in roles
    ]


def _config(training: TrainingInput, config: ReplicaConfig, image: str | None) -> list[Any]:
    """Return a role's container; ``image`` is the master's, for roles without their own."""
    own = config.image_uri or image
    digest = parse_image_ref(own).digest if own else None
    rest = {"acceleratorConfig": config.accelerator_config, "diskConfig": config.disk_config}
    attached = {name: value.to_wire() for name, value in rest.items() if value}
    return [
        digest or own,
        config.container_command or [],
        config.container_args or training.args or [],
        {name: {key: part for key, part in value.items() if part} for name, value in attached.items()},
    ]


def _search(search: HyperparameterSpec) -> dict[str, Any]:
    """Return a search with the API's defaults; no more trials run at once than there are."""
    study = study_from_wire(search)
    parallel = min(study.max_parallel_trials, study.max_trials)
    return asdict(replace(study, max_parallel_trials=parallel))


def images_without_digest(spec: JobSpec) -> list[str]:
    """
    Return the images of the job that are named by a tag, each once.

    A tag does not say what an image holds.

    Pure. A runtime version has none: its image is the service's own.
    """
    images = dict.fromkeys(replica.image for replica in spec.replicas)
    return [str(image) for image in images if image.digest is None and runtime_of(image) is None]


def has_content(
    job: Job, wanted: str, data: Sequence[DataVersion], options: Mapping[str, Any] = NO_OPTIONS
) -> bool:
    """
    Whether ``job`` SUCCEEDED and has the content ``wanted``.

    Pure. Labels can be changed later, so the request itself is compared as well, but for its options: they
    are not read back.
    """
    return (
        job.state is JobState.SUCCEEDED
        and (job.labels or {}).get(CONTENT_LABEL) == wanted
        and job.training_input is not None
        and content_hash(job.training_input, data, options) == wanted
    )


def content_filter(wanted: str) -> str:
    """
    Return the ``jobs.list`` filter for finished jobs of the content ``wanted``. Pure.

    They have results.
    """
    return f"labels.{CONTENT_LABEL}={wanted} AND state={JobState.SUCCEEDED}"
