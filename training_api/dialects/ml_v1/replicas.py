"""
Which replicas a job has, and what each runs.

Tiers, machine types, accelerators, images and arguments by role.

Source of the rules, unless another is named: the discovery document's ``TrainingInput`` and
``ReplicaConfig``.
"""

from __future__ import annotations

from collections.abc import Sequence

from training_api.dialects.ml_v1.packages import (
    Runtimes,
    is_package_job,
    job_dir_args,
    package_violations,
    packages_from_wire,
)
from training_api.dialects.ml_v1.resources import (
    DiskConfig,
    ReplicaConfig,
    ScaleTier,
    TrainingInput,
)
from training_api.dialects.ml_v1.roles import OTHER_ROLES, RoleMachines, machines_of
from training_api.dialects.ml_v1.rules.accelerator_rules import NO_TPU, accelerators_from_wire
from training_api.errors import InvalidImageRef
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.image_ref import ImageRef, parse_image_ref
from training_api.job.machines import MACHINE_TYPES, TPU_MACHINE, MachineType
from training_api.job.packages.python_package import runtime_args, runtime_image
from training_api.job.replica_spec import MAX_REPLICAS, ReplicaSpec
from training_api.job.violations import Violations

#: discovery: DiskConfig.bootDiskType "Valid values".
_DISK_TYPES = ("pd-ssd", "pd-standard")


def replicas_from_wire(
    rules: Violations, training: TrainingInput, runtimes: Runtimes | None = None
) -> tuple[ReplicaSpec, ...]:
    """
    Return the replicas of a job, the master first.

    Then workers, parameter servers and evaluators by index.

    :param runtimes: the runtime versions of the service; ``None``, on a client: any is taken.

    What breaks a rule is recorded in ``rules``; a role that cannot be read has no replicas.
    """
    # captured: gcloud leaves scaleTier out unless given, so the server must default.
    tier = training.scale_tier or ScaleTier.BASIC
    if tier is ScaleTier.BASIC_TPU:
        rules.add("trainingInput.scaleTier", f"{NO_TPU}; got {tier.value}")
        return ()
    roles = list(machines_of(training))
    if tier is ScaleTier.CUSTOM:
        _check_custom(rules, training, roles)
    else:
        _check_tier(rules, training, tier)
    _check_counts(rules, roles)
    _check_arguments(rules, training, roles)
    _check_families(rules, roles)
    rules.found += package_violations(training, runtimes)
    master_image = _master_image(rules, training)
    replicas: list[ReplicaSpec] = []
    for role in roles:
        replicas += _replicas_of(rules, training, role, master_image, is_custom=tier is ScaleTier.CUSTOM)
    return tuple(replicas)


def _check_custom(rules: Violations, training: TrainingInput, roles: Sequence[RoleMachines]) -> None:
    if not training.master_type:
        rules.add("trainingInput.masterType", "must be set when scaleTier is CUSTOM")
    for role in roles[1:]:
        wire = role.fields.wire
        if role.count > 0 and not role.machine:
            rules.add(f"trainingInput.{wire}Type", f"must be set when {wire}Count is more than 0")


def _check_tier(rules: Violations, training: TrainingInput, tier: ScaleTier) -> None:
    """Check that the request gives no types and counts: the tier has its own."""
    if training.master_type:
        rules.add("trainingInput.masterType", f"can only be set with scaleTier CUSTOM, not {tier.value}")
    for fields in OTHER_ROLES:
        if fields.count_of(training):
            rules.add(
                f"trainingInput.{fields.wire}Count",
                f"can only be set with scaleTier CUSTOM, not {tier.value}",
            )


def _check_counts(rules: Violations, roles: Sequence[RoleMachines]) -> None:
    for role in roles:
        if role.count < 0:
            rules.add(f"trainingInput.{role.fields.wire}Count", f"must not be negative; got {role.count}")
    total = sum(role.count for role in roles)
    if total > MAX_REPLICAS:
        largest = max(roles, key=lambda role: role.count)
        rules.add(
            f"trainingInput.{largest.fields.wire}Count",
            f"a job may have at most {MAX_REPLICAS} replicas here, all roles together; got {total}",
        )


def _check_arguments(rules: Violations, training: TrainingInput, roles: Sequence[RoleMachines]) -> None:
    configs = [role.config for role in roles if role.config and role.count > 0]
    if training.args and any(config.container_args or config.container_command for config in configs):
        rules.add("trainingInput.args", "cannot be set together with containerCommand or containerArgs")


def _check_families(rules: Violations, roles: Sequence[RoleMachines]) -> None:
    """Check that all types in use are of the master's category."""
    master, *others = roles
    first = MACHINE_TYPES.get(master.machine or "")
    for role in others:
        machine = MACHINE_TYPES.get(role.machine or "")
        if role.count > 0 and first and machine and machine.family is not first.family:
            rules.add(
                f"trainingInput.{role.fields.wire}Type",
                f"must be of the same category as masterType {first.name!r} ({first.family}); "
                f"got {machine.name!r} ({machine.family})",
            )


def _master_image(rules: Violations, training: TrainingInput) -> ImageRef | None:
    if is_package_job(training):
        return runtime_image(training.runtime_version or "")
    path = "trainingInput.masterConfig.imageUri"
    config = training.master_config
    if config is None or not config.image_uri:
        rules.add(
            path, "is required: the image that the master runs; or packageUris and their runtimeVersion"
        )
        return None
    return _image(rules, path, config.image_uri)


def _image(rules: Violations, path: str, text: str) -> ImageRef | None:
    try:
        return parse_image_ref(text)
    except InvalidImageRef as error:
        rules.add(path, str(error))
        return None


def _replicas_of(
    rules: Violations,
    training: TrainingInput,
    role: RoleMachines,
    master_image: ImageRef | None,
    *,
    is_custom: bool,
) -> list[ReplicaSpec]:
    if role.count <= 0 or not role.machine:
        return []  # a role without replicas is not read
    config = role.config or ReplicaConfig()
    path = f"trainingInput.{role.fields.wire}Config"
    _check_disk(rules, f"{path}.diskConfig", config.disk_config or DiskConfig())
    if config.tpu_tf_version:
        rules.add(f"{path}.tpuTfVersion", f"can only be set for TPU workers; {NO_TPU}")
    image = master_image
    if role.fields.role is not ReplicaRole.MASTER and config.image_uri:
        if is_package_job(training):
            rules.add(f"{path}.imageUri", "cannot be set without masterConfig.imageUri")
        image = _image(rules, f"{path}.imageUri", config.image_uri)
    command, args = _arguments(training, config)
    machine = _machine(rules, role)
    gpus, gpu = accelerators_from_wire(
        rules, f"{path}.acceleratorConfig", config.accelerator_config, machine, is_custom=is_custom
    )
    if image is None or machine is None:
        return []
    return [
        ReplicaSpec(
            replica=ReplicaId(role=role.fields.role, index=index),
            image=image,
            machine=machine,
            command=command,
            args=args,
            gpus=gpus,
            gpu=gpu,
        )
        for index in range(min(role.count, MAX_REPLICAS))
    ]


def _machine(rules: Violations, role: RoleMachines) -> MachineType | None:
    path = f"trainingInput.{role.fields.wire}Type"
    if role.machine == TPU_MACHINE:
        rules.add(path, f"{NO_TPU}; got {role.machine!r}")
        return None
    machine = MACHINE_TYPES.get(role.machine or "")
    if machine is None:
        rules.add(path, f"must be one of {', '.join(MACHINE_TYPES)}; got {role.machine!r}")
    return machine


def _check_disk(rules: Violations, path: str, disk: DiskConfig) -> None:
    if disk.boot_disk_type and disk.boot_disk_type not in _DISK_TYPES:
        known = " or ".join(_DISK_TYPES)
        rules.add(f"{path}.bootDiskType", f"must be {known}; got {disk.boot_disk_type!r}")
    if disk.boot_disk_size_gb is not None and disk.boot_disk_size_gb < 0:  # [unverified]
        rules.add(f"{path}.bootDiskSizeGb", f"must not be negative; got {disk.boot_disk_size_gb}")


def _arguments(training: TrainingInput, config: ReplicaConfig) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (command, args); ``--job-dir`` follows the user's args [unverified]."""
    job_dir = job_dir_args(training.job_dir)
    if packages := packages_from_wire(training):
        return (), runtime_args(packages, (*(training.args or ()), *job_dir))
    args = training.args or config.container_args or []
    return tuple(config.container_command or ()), (*args, *job_dir)
