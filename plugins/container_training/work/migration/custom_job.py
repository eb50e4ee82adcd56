"""
A ``CustomJob`` of Vertex AI as fields of ``trainingInput``. Without I/O.

Source: ``google.cloud.aiplatform_v1.types``: ``custom_job``, ``machine_resources``, ``env_var``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from container_training.work.migration.arguments import place_arguments, words
from training_api.dialects.ml_v1.roles import MASTER, ROLES, RoleFields

#: Takes what a decision is about, and its text.
Decide = Callable[[str, str], None]
#: Takes an option that only Vertex AI has, its value, and what is to be decided elsewhere.
Option = Callable[[str, Any, str, str], None]
#: Types of a reservation affinity -> words for them.
_RESERVATIONS = {"ANY_RESERVATION": "ANY", "NO_RESERVATION": "NONE"}
#: Options of the whole job, by their names in ``scheduling``.
_SCHEDULING = ("strategy", "restart_job_on_worker_restart", "disable_retries")
#: What stands in the place of an accelerator type where there is none.
NO_ACCELERATOR = (None, "ACCELERATOR_TYPE_UNSPECIFIED")
#: Fields of ``trainingInput`` -> those of a ``PythonPackageSpec``.
_PACKAGE_FIELDS = {"packageUris": "package_uris", "pythonModule": "python_module", "args": "args"}
_CAMEL, _UPPER = re.compile(r"_([a-z])"), re.compile(r"[A-Z]")
_SHOWN = 60


@dataclass(slots=True)
class _Message:
    """A message, of which fields are taken out, in either spelling of their names."""

    path: str
    fields: dict[str, Any]
    inner: list[_Message] = field(default_factory=list)

    def take(self, name: str) -> Any:
        """Return a field, which is then no longer left; ``None``: it is not given."""
        camel = _CAMEL.sub(lambda found: found[1].upper(), name)
        return self.fields.pop(name, self.fields.pop(camel, None))

    def message(self, name: str) -> _Message:
        """Return a field that is a message; an empty one if it is none."""
        value = self.take(name)
        return self._within(name, value)

    def messages(self, name: str) -> list[_Message]:
        """Return a field that is a list of messages."""
        found = self.take(name)
        values = found if isinstance(found, list) else [] if found is None else [found]
        return [self._within(f"{name}[{place}]", value) for place, value in enumerate(values)]

    def left(self) -> Iterator[tuple[str, Any]]:
        """Yield path and value of each field that was not taken."""
        for name, value in self.fields.items():
            yield f"{self.path}{name}", value
        for message in self.inner:
            yield from message.left()

    def _within(self, name: str, value: Any) -> _Message:
        is_message = isinstance(value, Mapping)
        made = _Message(f"{self.path}{name}.", dict(value) if is_message else {})
        if value is not None and not is_message:
            self.fields[name] = value  # it cannot be read, which is then said of it
        self.inner.append(made)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomJob:
    """
    What a ``CustomJob`` asks for.

    :param training: fields of ``trainingInput``.
    :param container: image that runs its packages; empty: it has none.
    :param folder: where its output goes; empty: nowhere.
    """

    labels: Mapping[str, str]
    training: Mapping[str, Any]
    container: str
    folder: str


def read_custom_job(job: Mapping[str, Any], decide: Decide, option: Option) -> CustomJob:
    """
    Return what ``job`` asks for. Pure.

    :param decide: is told what has no counterpart.
    :param option: is told what has one on Vertex AI only.
    """
    top = _Message("", dict(job))
    top.take("display_name")
    labels = top.take("labels") or {}
    spec = top.message("job_spec")
    training: dict[str, Any] = {"scaleTier": "CUSTOM"}
    pools = _Pools(training, decide, option)
    pools.read(spec.messages("worker_pool_specs"))
    folder = spec.message("base_output_directory").take("output_uri_prefix")
    times = spec.message("scheduling")
    scheduling = {
        "maxRunningTime": _seconds(times.take("timeout")),
        "maxWaitTime": _seconds(times.take("max_wait_duration")),
    }
    for name in _SCHEDULING:
        if (value := times.take(name)) is not None:
            option(name, value, "dag", _left_out(f"job_spec.scheduling.{name}", value))
    if (machines := spec.take("persistent_resource_id")) is not None:
        text = _left_out("job_spec.persistent_resource_id", machines)
        option("persistent_resource_id", machines, "dag", text)
    training |= {
        "scheduling": {name: value for name, value in scheduling.items() if value is not None},
        "serviceAccount": spec.take("service_account"),
        "network": spec.take("network"),
        "enableWebAccess": spec.take("enable_web_access"),
    }
    if key := top.message("encryption_spec").take("kms_key_name"):
        training["encryptionConfig"] = {"kmsKeyName": key}
    if (tensorboard := spec.take("tensorboard")) is not None:
        decide(
            "collect",
            f"tensorboard={_short(tensorboard)}: summaries in the job's folder are shown on the job's page",
        )
    for path, value in top.left():
        decide("dag", _left_out(path, value))
    return CustomJob(
        labels=labels if isinstance(labels, Mapping) else {},
        training=training,
        container=pools.container,
        folder=str(folder or ""),
    )


class _Pools:
    """
    Reads the pools of a job into ``training``, the master's first.

    :ivar container: image that runs the job's packages; empty: it has none.
    """

    def __init__(self, training: dict[str, Any], decide: Decide, option: Option) -> None:
        self.container = ""
        self._training = training
        self._decide = decide
        self._option = option
        self._args: dict[RoleFields, Any] = {}

    def read(self, pools: Iterable[_Message]) -> None:
        """Read all pools; one without replicas is passed over."""
        for role, pool in zip(ROLES, pools, strict=False):
            count = pool.take("replica_count")
            if role is MASTER or count:
                self._read(role, pool, count)
        if not self._training.get("pythonModule") and self._args:
            place_arguments(self._training, self._args)

    def _read(self, role: RoleFields, pool: _Message, count: Any) -> None:
        machine, disk = pool.message("machine_spec"), pool.message("disk_spec")
        kind, accelerators = machine.take("accelerator_type"), machine.take("accelerator_count")
        disk_config = {
            "bootDiskType": disk.take("boot_disk_type"),
            "bootDiskSizeGb": disk.take("boot_disk_size_gb"),
        }
        container, package = pool.message("container_spec"), pool.message("python_package_spec")
        for message in (container, package):
            self._read_variables(role, message)
        self._read_machine(machine.message("reservation_affinity"), pool)
        if role is MASTER:
            self._read_packages(package)
        else:
            self._training |= {f"{role.wire}Count": str(count), "useChiefInTfConfig": True}
            self._decide(
                f"{role.name}_count",
                f"CLUSTER_SPEC calls this role {role.role}; Vertex AI calls it a workerpool. TF_CONFIG is the same",
            )
            self._compare_packages(role, container, package)
        config = {
            "imageUri": container.take("image_uri"),
            "containerCommand": container.take("command"),
            "acceleratorConfig": {"type": kind, "count": accelerators}
            if kind not in NO_ACCELERATOR and accelerators
            else None,
            "diskConfig": {name: value for name, value in disk_config.items() if value is not None},
        }
        if config["imageUri"] == self._training.get("masterConfig", {}).get("imageUri"):
            config["imageUri"] = None
        self._args[role] = words(container.take("args"))
        self._training[f"{role.wire}Type"] = machine.take("machine_type")
        self._training[f"{role.wire}Config"] = {name: value for name, value in config.items() if value}

    def _read_packages(self, package: _Message) -> None:
        if package.fields:
            self._training |= _packages_of(package)
            self.container = str(package.take("executor_image_uri") or "")

    def _compare_packages(self, role: RoleFields, container: _Message, package: _Message) -> None:
        """Say what the role would run, where it is not the program of a job with packages."""
        of_job = self._training
        left_out = []
        if of_job.get("pythonModule"):
            asked = _packages_of(package) if package.fields else {}
            left_out = [
                f"{package.path}{snake}={_short(asked[name])}"
                for name, snake in _PACKAGE_FIELDS.items()
                if asked and asked[name] != of_job.get(name)
            ]
            package.take("executor_image_uri")
        other = container if of_job.get("pythonModule") else package
        if other.fields:
            left_out.append(f"{other.path.rstrip('.')}={_short(other.fields)}")
            other.fields.clear()
        for each in left_out:
            self._decide(
                f"{role.name}_config",
                f"custom_job has {each}: a job runs either packages, with the same module and arguments in every "
                "role, or an image for each role; it is left out",
            )

    def _read_variables(self, role: RoleFields, program: _Message) -> None:
        if (variables := program.take("env")) is None:
            return
        text = (
            f"env={_short(variables)}: a job has no variables of its own: set them in the image (ENV), pass them "
            "as args, or keep secrets with trainer_secrets"
        )
        try:
            named = {str(each["name"]): str(each["value"]) for each in variables}
        except (TypeError, KeyError):  # only a run knows them
            self._decide("args", text)
            return
        self._option("env_of_roles", {role.name: named}, "args", text)

    def _read_machine(self, affinity: _Message, pool: _Message) -> None:
        if affinity.fields:
            kind = affinity.take("reservation_affinity_type")
            affinity.take("key")
            values = affinity.take("values")
            wanted = _RESERVATIONS.get(kind, values)
            path = f"{affinity.path.rstrip('.')}"
            self._option("reservation", wanted, "dag", _left_out(path, values or kind))
        mounts = pool.take("nfs_mounts")
        if isinstance(mounts, list) and all(isinstance(each, Mapping) for each in mounts):
            wanted = [{_snake(name): value for name, value in each.items()} for each in mounts]
            self._option("nfs_mounts", wanted, "dag", _left_out(f"{pool.path}nfs_mounts", mounts))
        elif mounts is not None:
            pool.fields["nfs_mounts"] = mounts  # it cannot be read, which is then said of it


def _snake(name: str) -> str:
    return _UPPER.sub(lambda found: f"_{found[0].lower()}", name)


def _left_out(path: str, value: Any) -> str:
    return f"custom_job has {path}={_short(value)}: it has no counterpart and is left out"


def _packages_of(package: _Message) -> dict[str, Any]:
    """Return the fields of ``trainingInput`` that a package has."""
    return {name: words(package.take(snake)) for name, snake in _PACKAGE_FIELDS.items()}


def _seconds(value: Any) -> Any:
    """Return a duration as the API writes it; text is one already."""
    if isinstance(value, Mapping):
        value = value.get("seconds")
    return f"{value}s" if isinstance(value, int) else value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
