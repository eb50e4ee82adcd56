"""The worker pools of a job: what each role runs, written out for Vertex AI. Pure."""

from __future__ import annotations

from typing import Any

from pydantic.alias_generators import to_camel

from training_api.dialects.ml_v1.packages import is_package_job, job_dir_args, package_violations
from training_api.dialects.ml_v1.replicas import replicas_from_wire
from training_api.dialects.ml_v1.resources import ReplicaConfig, ScaleTier, TrainingInput
from training_api.dialects.ml_v1.roles import ROLES, RoleMachines, machines_of
from training_api.dialects.vertex_v1.pools import check_disk
from training_api.job.replica_spec import ReplicaSpec
from training_api.job.violations import Violations
from training_api.vertex_jobs.literals import folder_args, literal
from training_api.vertex_jobs.machines import check_tier, machine_spec
from training_api.vertex_jobs.options import VertexOptions

#: Stand for what the rules of ml.v1 want, and Vertex AI has rules of its own for, or none.
_ANY_MACHINE, _ANY_VERSION, _ANY_IMAGE = "n1-standard-4", "0.0", "localhost/none"
_PACKAGE_FIELDS = ("package_uris", "python_module", "runtime_version", "python_version")


def write_pools(rules: Violations, training: TrainingInput, options: VertexOptions) -> list[dict[str, Any]]:
    """
    Return the ``workerPoolSpecs`` of a job, ``{}`` for a role in between without replicas.

    What breaks a rule, of ml.v1 or of Vertex AI, is recorded in ``rules``: the pools are then of no use.
    """
    tier = training.scale_tier or ScaleTier.BASIC
    roles = list(machines_of(training))
    if tier is not ScaleTier.CUSTOM:
        check_tier(rules, tier, roles)
    replicas = {}
    if tier is not ScaleTier.BASIC_TPU:
        found = replicas_from_wire(rules, in_rules_of_ml(rules, training, options))
        replicas = {each.replica.role: each for each in reversed(found)}
    pools = [_pool(rules, training, options, role, replicas.get(role.fields.role)) for role in roles]
    while pools and not pools[-1]:
        pools.pop()
    return pools


def in_rules_of_ml(rules: Violations, training: TrainingInput, options: VertexOptions) -> TrainingInput:
    """
    Return the job as ml.v1's rules accept it: an image for packages, known machines.

    Packages that break a rule are recorded in ``rules``.
    """
    of_image = _with_executor(rules, training, options) if is_of_packages(training) else training
    return _without_machines(of_image)


def is_of_packages(training: TrainingInput) -> bool:
    """Whether the job installs packages, into a runtime's image or into an executor's."""
    return bool(training.package_uris or training.python_module) or is_package_job(training)


def _with_executor(rules: Violations, training: TrainingInput, options: VertexOptions) -> TrainingInput:
    """Return a job of packages as one of the image that they are installed into."""
    config = training.master_config or ReplicaConfig()
    image = config.image_uri or options.executor_image_uri
    if not image:
        rules.add(
            "trainingInput.runtimeVersion",
            f"Vertex AI has no runtime versions; set vertex_options executor_image_uri, or masterConfig.imageUri, to "
            f"an image that packages are installed into; got {training.runtime_version!r}",
        )
    update: dict[str, Any] = {}
    for fields in ROLES:
        own = fields.config_of(training) or ReplicaConfig()
        for name in ("container_command", "container_args"):
            if getattr(own, name):
                path = f"trainingInput.{fields.wire}Config.{to_camel(name)}"
                rules.add(path, "cannot be set together with packages: their pythonModule runs, with args")
        update[f"{fields.name}_config"] = own.model_copy(
            update={"container_command": None, "container_args": None}
        )
    versions = {
        name: getattr(training, name) or _ANY_VERSION for name in ("runtime_version", "python_version")
    }
    rules.found += package_violations(training.model_copy(update={**versions, "master_config": None}))
    update["master_config"] = update["master_config"].model_copy(update={"image_uri": image or _ANY_IMAGE})
    return training.model_copy(update={**update, **dict.fromkeys(_PACKAGE_FIELDS)})


def _without_machines(training: TrainingInput) -> TrainingInput:
    """Return the job with a machine that ml.v1 knows, and neither accelerators nor disks."""
    update: dict[str, Any] = {}
    for fields in ROLES:
        if training.scale_tier is ScaleTier.CUSTOM and fields.machine_of(training):
            update[f"{fields.name}_type"] = _ANY_MACHINE
        if config := fields.config_of(training):
            if training.scale_tier is ScaleTier.CUSTOM:
                config = config.model_copy(update={"accelerator_config": None})
            update[f"{fields.name}_config"] = config.model_copy(update={"disk_config": None})
    return training.model_copy(update=update)


def _pool(
    rules: Violations,
    training: TrainingInput,
    options: VertexOptions,
    role: RoleMachines,
    replica: ReplicaSpec | None,
) -> dict[str, Any]:
    if role.count <= 0 or not role.machine:
        return {}
    is_custom = training.scale_tier is ScaleTier.CUSTOM
    disk = _disk(rules, role)
    pool: dict[str, Any] = {
        "machineSpec": machine_spec(rules, role, options.reservation_affinity, is_custom=is_custom),
        "replicaCount": str(role.count),
        **({"diskSpec": disk} if disk else {}),
        **({"nfsMounts": options.mounts} if options.nfs_mounts else {}),
    }
    return {**pool, **_task(training, options, role, replica)} if replica else pool


def _disk(rules: Violations, role: RoleMachines) -> dict[str, Any]:
    disk = role.config.disk_config.to_wire() if role.config and role.config.disk_config else {}
    check_disk(rules, f"trainingInput.{role.fields.wire}Config.diskConfig", disk)
    return {name: value for name, value in disk.items() if value}


def _task(
    training: TrainingInput, options: VertexOptions, role: RoleMachines, replica: ReplicaSpec
) -> dict[str, Any]:
    """Return what the replicas of a role run: a container, or packages in an executor's image."""
    own = len(replica.args) - len(job_dir_args(training.job_dir))
    is_study = training.hyperparameters is not None
    args = [*map(literal, replica.args[:own]), *folder_args(training.job_dir or "", is_study=is_study)]
    shared = _present(args=args, env=options.variables_of(role.fields.name))
    if is_of_packages(training):
        packages = _present(packageUris=training.package_uris, pythonModule=training.python_module)
        return {"pythonPackageSpec": {"executorImageUri": str(replica.image), **packages, **shared}}
    command = _present(command=[literal(word) for word in replica.command])
    return {"containerSpec": {"imageUri": str(replica.image), **command, **shared}}


def _present(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value}
