"""
From the wire's Job to a ``JobSpec`` that is known to be good: the documented rules, each with its source.

``job_spec_from_wire`` reports every broken rule at once, by the camelCase path of the field, so that a caller mends a
request in one go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from container_training.core.cluster import ReplicaId, ReplicaRole
from container_training.core.errors import FieldViolation, InvalidImageRef, InvalidJobSpec
from container_training.core.image_ref import ImageRef, parse_image_ref
from container_training.core.machines import MACHINE_TYPES, SINGLE_REPLICA_TIERS, TIER_MASTER, MachineType
from container_training.core.python_package import (
    Runtimes,
    is_package_job,
    package_violations,
    runtime_args,
    runtime_image,
)
from container_training.core.wire import (
    DiskConfig,
    EncryptionConfig,
    Job,
    ReplicaConfig,
    ScaleTier,
    Scheduling,
    TrainingInput,
)

JOB_ID = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")
JOB_ID_RULE = "must start with a letter, hold only letters, digits and underscores, and be at most 128 long"
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_MAX_LABELS = 64
_BUCKET_PATH = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/.*)?")
_KMS_KEY = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+")
_NETWORK = re.compile(r"projects/[^/]+/global/networks/[^/]+")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
#: discovery: DiskConfig.bootDiskType "Valid values".
_DISK_TYPES = ("pd-ssd", "pd-standard")
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)s")

#: discovery: Scheduling.maxWaitTime "The minimum for this field is 1800s".
MIN_WAIT = timedelta(seconds=1800)
#: discovery: Scheduling.maxRunningTime "defaults to 604800s (seven days)".
DEFAULT_RUNNING = timedelta(seconds=604800)

#: Fields of the API that this version refuses by name rather than ignoring: path -> why. The types and configurations
#: of roles without replicas are not among them: the API's counts are zero by default, and then nothing reads them.
_NOT_YET = {
    "worker_count": "this service runs one replica so far; workers come with distributed training",
    "parameter_server_count": "this service runs one replica so far; parameter servers come with distributed training",
    "evaluator_count": "this service runs one replica so far; evaluators come with distributed training",
    "hyperparameters": "this service does not tune hyperparameters yet",
    "enable_web_access": "this service has no interactive shells; leave it out and use `docker exec` on its machine",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSpec:
    """
    What one replica runs.

    :param command: replaces the image's entry point; empty: the image's own.
    :param args: follow the entry point, ``--job-dir`` included.
    """

    replica: ReplicaId
    image: ImageRef
    machine: MachineType
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """
    A validated job: what was asked, in the project's own terms.

    :param replicas: at least the master, which comes first.
    :param max_wait: limit on QUEUED and PREPARING together; ``None``: none.
    :param max_running: limit on RUNNING.
    :param priority: 0 to 1000, higher first.
    """

    project: str
    job_id: str
    replicas: tuple[ReplicaSpec, ...]
    training_input: TrainingInput
    labels: dict[str, str] = field(default_factory=dict)
    max_wait: timedelta | None = None
    max_running: timedelta = DEFAULT_RUNNING
    priority: int = 0

    @property
    def master(self) -> ReplicaSpec:
        """The replica that decides how the job ends."""
        return self.replicas[0]

    @property
    def use_chief(self) -> bool:
        """Whether TF_CONFIG names the master ``chief``."""
        return bool(self.training_input.use_chief_in_tf_config)


def job_spec_from_wire(project: str, job: Job, runtimes: Runtimes | None = None) -> JobSpec:
    """
    Return the validated job of a create request.

    Pure. Output-only fields of ``job`` are ignored, as the real API does.

    :param runtimes: the runtime versions of the service; ``None``, on a client: any is taken.
    :raises InvalidJobSpec: with every rule that ``job`` breaks.
    """
    rules = _Rules(runtimes)
    spec = _read(rules, project, job)
    if spec is None or rules.violations:
        raise InvalidJobSpec(rules.violations)
    return spec


def accepted_job_spec(project: str, job: Job) -> JobSpec:
    """
    Return the job of a request that was accepted before, perhaps under other rules; a new rule does not undo it.

    Pure.

    :raises InvalidJobSpec: its image or its machine cannot be read at all.
    """
    rules = _Rules()
    spec = _read(rules, project, job)
    if spec is None:
        raise InvalidJobSpec(rules.violations)
    return spec


def _read(rules: _Rules, project: str, job: Job) -> JobSpec | None:
    """Return the job as far as it can be read, or ``None``; what it breaks is in ``rules``."""
    rules.check_identity(job)
    if job.prediction_input is not None:
        rules.add("predictionInput", "this service runs training jobs only; set trainingInput")
    training = job.training_input
    if training is None:
        if job.prediction_input is None:
            rules.add("trainingInput", "is required")
        return None
    rules.check_supported(training)
    rules.check_job_dir(training)
    rules.check_formats(training)
    machine = rules.check_machine(training)
    image = rules.check_image(training)
    command, args = rules.check_arguments(training)
    max_wait, max_running, priority = rules.check_scheduling(training.scheduling or Scheduling())
    if image is None or machine is None:
        return None
    master = ReplicaSpec(
        replica=ReplicaId(role=ReplicaRole.MASTER), image=image, machine=machine, command=command, args=args
    )
    return JobSpec(
        project=project,
        job_id=job.job_id or "",
        replicas=(master,),
        training_input=training,
        labels=dict(job.labels or {}),
        max_wait=max_wait,
        max_running=max_running,
        priority=priority,
    )


def parse_duration(text: str) -> timedelta:
    """
    Return the duration of ``"3600s"``: seconds, up to nine fractional digits, and an ``s``.

    :raises ValueError: any other form. Source: discovery, format ``google-duration``.
    """
    match = _DURATION.fullmatch(text)
    if not match:
        raise ValueError(f"must be seconds followed by 's', like '3600s'; got {text!r}")
    return timedelta(seconds=float(match[1]))


def label_violations(labels: Mapping[str, str]) -> list[FieldViolation]:
    """
    Return every rule that a job's labels break; none: they are good.

    Pure. Source: sdk, labels_util.py; the lengths: the label documentation.
    """
    broken = []
    if len(labels) > _MAX_LABELS:
        broken.append(f"must be at most {_MAX_LABELS}, got {len(labels)}")
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key):
            broken.append(f"key {key!r} must start with a-z, hold only [a-z0-9_-], and be at most 63 long")
        if not _LABEL_VALUE.fullmatch(value):
            broken.append(f"value {value!r} of {key!r} must hold only [a-z0-9_-] and be at most 63 long")
    return [FieldViolation(field="labels", description=description) for description in broken]


class _Rules:
    """Collects violations; one method a group of rules, each returns the value it validated."""

    def __init__(self, runtimes: Runtimes | None = None) -> None:
        self.violations: list[FieldViolation] = []
        self._runtimes = runtimes

    def add(self, path: str, description: str) -> None:
        self.violations.append(FieldViolation(field=path, description=description))

    def check_identity(self, job: Job) -> None:
        # [unverified] the rule's wording; the pattern itself is what gcloud's own tests and users report.
        if not job.job_id or not JOB_ID.fullmatch(job.job_id):
            self.add("jobId", f"{JOB_ID_RULE}; got {job.job_id!r}")
        self.violations += label_violations(job.labels or {})

    def check_supported(self, training: TrainingInput) -> None:
        for name, why in _NOT_YET.items():
            value = getattr(training, name)
            if value not in (None, 0, [], ""):
                self.add(f"trainingInput.{_camel(name)}", why)
        master = training.master_config or ReplicaConfig()
        if master.accelerator_config and master.accelerator_config.count:
            self.add("trainingInput.masterConfig.acceleratorConfig", "this service has no accelerators yet")
        # discovery: "required if the replica is a TPU worker [...]. Otherwise, do not specify this field".
        if master.tpu_tf_version:
            self.add(
                "trainingInput.masterConfig.tpuTfVersion",
                "can only be set for TPU workers; this service has no accelerators yet",
            )

    def check_job_dir(self, training: TrainingInput) -> None:
        if training.job_dir is not None and not _BUCKET_PATH.fullmatch(training.job_dir):
            self.add(
                "trainingInput.jobDir",
                f"must be a Cloud Storage path gs://BUCKET/FOLDER; got {training.job_dir!r}",
            )

    def check_formats(self, training: TrainingInput) -> None:
        """Check what has no effect on one machine, but a form that the discovery document gives."""
        key = (training.encryption_config or EncryptionConfig()).kms_key_name
        self._form(
            "trainingInput.encryptionConfig.kmsKeyName",
            key,
            _KMS_KEY,
            "projects/PROJECT/locations/REGION/keyRings/RING/cryptoKeys/KEY",
        )
        # A project's id is let through, where the document says its number: locally there are no numbers.
        self._form(
            "trainingInput.network", training.network, _NETWORK, "projects/PROJECT/global/networks/NETWORK"
        )
        self._form(
            "trainingInput.serviceAccount", training.service_account, _EMAIL, "an email address NAME@DOMAIN"
        )
        disk = (training.master_config and training.master_config.disk_config) or DiskConfig()
        path = "trainingInput.masterConfig.diskConfig"
        if disk.boot_disk_type and disk.boot_disk_type not in _DISK_TYPES:
            known = " or ".join(_DISK_TYPES)
            self.add(f"{path}.bootDiskType", f"must be {known}; got {disk.boot_disk_type!r}")
        if disk.boot_disk_size_gb is not None and disk.boot_disk_size_gb < 0:  # [unverified]
            self.add(f"{path}.bootDiskSizeGb", f"must not be negative; got {disk.boot_disk_size_gb}")

    def check_machine(self, training: TrainingInput) -> MachineType | None:
        # captured: gcloud leaves scaleTier out unless given, so the server must default.
        tier = training.scale_tier or ScaleTier.BASIC
        if tier not in SINGLE_REPLICA_TIERS:
            self.add(
                "trainingInput.scaleTier", f"this service runs BASIC and CUSTOM so far; got {tier.value}"
            )
            return None
        if tier is not ScaleTier.CUSTOM:
            if training.master_type:
                self.add(
                    "trainingInput.masterType", f"can only be set with scaleTier CUSTOM, not {tier.value}"
                )
            return MACHINE_TYPES[TIER_MASTER[tier]]
        if not training.master_type:
            self.add("trainingInput.masterType", "must be set when scaleTier is CUSTOM")
            return None
        machine = MACHINE_TYPES.get(training.master_type)
        if machine is None or machine.gpus:
            known = ", ".join(name for name, known in MACHINE_TYPES.items() if not known.gpus)
            self.add("trainingInput.masterType", f"must be one of {known}; got {training.master_type!r}")
        return machine

    def check_image(self, training: TrainingInput) -> ImageRef | None:
        self.violations += package_violations(training, self._runtimes)
        if is_package_job(training):
            return runtime_image(training)
        path = "trainingInput.masterConfig.imageUri"
        config = training.master_config
        if config is None or not config.image_uri:
            self.add(
                path, "is required: the image that the master runs; or packageUris and their runtimeVersion"
            )
            return None
        try:
            return parse_image_ref(config.image_uri)
        except InvalidImageRef as error:
            self.add(path, str(error))
            return None

    def check_arguments(self, training: TrainingInput) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return (command, args); ``--job-dir`` follows the user's args, in the form ``--job-dir PATH`` [unverified]."""
        if is_package_job(training):
            return (), runtime_args(training)
        config = training.master_config or ReplicaConfig()
        # discovery: containerCommand and containerArgs exclude TrainingInput.args.
        if training.args and (config.container_args or config.container_command):
            self.add("trainingInput.args", "cannot be set together with containerCommand or containerArgs")
        job_dir = ("--job-dir", training.job_dir) if training.job_dir else ()
        args = training.args or config.container_args or []
        return tuple(config.container_command or ()), (*args, *job_dir)

    def check_scheduling(self, scheduling: Scheduling) -> tuple[timedelta | None, timedelta, int]:
        max_wait = self._duration("trainingInput.scheduling.maxWaitTime", scheduling.max_wait_time)
        if max_wait is not None and max_wait < MIN_WAIT:
            self.add(
                "trainingInput.scheduling.maxWaitTime",
                f"must be at least 1800s, got {scheduling.max_wait_time}",
            )
        max_running = self._duration("trainingInput.scheduling.maxRunningTime", scheduling.max_running_time)
        if max_running is not None and max_running <= timedelta(0):
            self.add("trainingInput.scheduling.maxRunningTime", "must be more than 0s")
        priority = scheduling.priority or 0
        if not 0 <= priority <= 1000:
            self.add("trainingInput.scheduling.priority", f"must be from 0 to 1000, got {priority}")
        return max_wait, max_running or DEFAULT_RUNNING, priority

    def _form(self, path: str, text: str | None, pattern: re.Pattern[str], form: str) -> None:
        # Empty text is an unset field in the API's own terms.
        if text and not pattern.fullmatch(text):
            self.add(path, f"must be {form}; got {text!r}")

    def _duration(self, path: str, text: str | None) -> timedelta | None:
        if text is None:
            return None
        try:
            return parse_duration(text)
        except ValueError as error:
            self.add(path, str(error))
            return None


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.title() for part in tail)
