"""
A ``CustomJob`` of Vertex AI as fields of ``trainingInput``. Without I/O.

Source: ``google.cloud.aiplatform_v1.types``: ``custom_job``, ``machine_resources``, ``env_var``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from training_api.dialects.ml_v1.roles import ROLES, RoleFields
from training_api.job.cluster import ReplicaRole

#: Takes what a decision is about, and its text.
Decide = Callable[[str, str], None]
#: What stands in the place of an accelerator type where there is none.
NO_ACCELERATOR = (None, "ACCELERATOR_TYPE_UNSPECIFIED")
_CAMEL = re.compile(r"_([a-z])")
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


def read_custom_job(job: Mapping[str, Any], decide: Decide) -> CustomJob:
    """Return what ``job`` asks for; what has no counterpart is told to ``decide``. Pure."""
    top = _Message("", dict(job))
    top.take("display_name")
    labels = top.take("labels") or {}
    spec = top.message("job_spec")
    training: dict[str, Any] = {"scaleTier": "CUSTOM"}
    containers = []
    for role, pool in zip(ROLES, spec.messages("worker_pool_specs"), strict=False):
        containers.append(_read_pool(role, pool, training, decide))
    folder = spec.message("base_output_directory").take("output_uri_prefix")
    times = spec.message("scheduling")
    scheduling = {
        "maxRunningTime": _seconds(times.take("timeout")),
        "maxWaitTime": _seconds(times.take("max_wait_duration")),
    }
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
        decide("dag", f"custom_job has {path}={_short(value)}: it has no counterpart and is left out")
    return CustomJob(
        labels=labels if isinstance(labels, Mapping) else {},
        training=training,
        container=next(filter(None, containers), ""),
        folder=str(folder or ""),
    )


def _read_pool(role: RoleFields, pool: _Message, training: dict[str, Any], decide: Decide) -> str:
    """Read a role's pool into ``training``; return the image that runs its packages, or nothing."""
    is_master = role.role is ReplicaRole.MASTER
    count = pool.take("replica_count")
    if not is_master and not count:
        return ""
    machine, disk = pool.message("machine_spec"), pool.message("disk_spec")
    container, package = pool.message("container_spec"), pool.message("python_package_spec")
    kind, accelerators = machine.take("accelerator_type"), machine.take("accelerator_count")
    disk_config = {
        "bootDiskType": disk.take("boot_disk_type"),
        "bootDiskSizeGb": disk.take("boot_disk_size_gb"),
    }
    args = words(container.take("args") or package.take("args"))
    config = {
        "imageUri": container.take("image_uri"),
        "containerCommand": container.take("command"),
        "acceleratorConfig": {"type": kind, "count": accelerators}
        if kind not in NO_ACCELERATOR and accelerators
        else None,
        "diskConfig": {name: value for name, value in disk_config.items() if value is not None},
    }
    training[f"{role.wire}Type"] = machine.take("machine_type")
    packages = {"packageUris": package.take("package_uris"), "pythonModule": package.take("python_module")}
    if is_master:
        training |= {"args": args, **packages}
    else:
        training[f"{role.wire}Count"] = str(count)
        training["useChiefInTfConfig"] = True
        if args != training.get("args"):  # those of the job are every replica's
            config["containerArgs"] = args
        if config["imageUri"] == training.get("masterConfig", {}).get("imageUri"):
            config["imageUri"] = None
        decide(
            f"{role.name}_count",
            f"CLUSTER_SPEC calls this role {role.role}; Vertex AI calls it a workerpool. TF_CONFIG is the same",
        )
    training[f"{role.wire}Config"] = {name: value for name, value in config.items() if value}
    for message in (container, package):
        if (variables := message.take("env")) is not None:
            decide(
                "args",
                f"env={_short(variables)}: a job has no variables of its own: set them in the image (ENV), pass them "
                "as args, or keep secrets with trainer_secrets",
            )
    return str(package.take("executor_image_uri") or "")


def words(value: Any) -> Any:
    """Return arguments as text: Vertex AI takes numbers, too. Pure."""
    return (
        [each if isinstance(each, str) else str(each) for each in value] if isinstance(value, list) else value
    )


def _seconds(value: Any) -> Any:
    """Return a duration as the API writes it; text is one already."""
    if isinstance(value, Mapping):
        value = value.get("seconds")
    return f"{value}s" if isinstance(value, int) else value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
