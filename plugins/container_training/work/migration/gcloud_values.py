"""
The meaning of gcloud's ``submit training`` flags, in the words of the API. Without I/O.

Source: ``command_lib/ml_engine/flags.py`` and ``jobs_util.py``, Google Cloud SDK 528; of lists
``gcloud topic escaping``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from container_training.work.migration.gcloud_command import GcloudCommand
from container_training.work.migration.shell_text import ShellText
from training_api.errors import InvalidCommand

_TRUE, _FALSE = ("true", "yes"), ("false", "no")
#: Flags whose value is a field of ``trainingInput`` as it is.
_PLAIN = {
    "job-dir": "jobDir",
    "master-machine-type": "masterType",
    "module-name": "pythonModule",
    "network": "network",
    "parameter-server-machine-type": "parameterServerType",
    "python-version": "pythonVersion",
    "region": "region",
    "runtime-version": "runtimeVersion",
    "service-account": "serviceAccount",
    "worker-machine-type": "workerType",
}
_COUNTS = {"parameter-server-count": "parameterServerCount", "worker-count": "workerCount"}


class FlagValues:
    """
    The values of a command's flags, read.

    Every method raises :class:`InvalidCommand` where a value cannot be read.
    """

    def __init__(self, command: GcloudCommand, text: ShellText) -> None:
        self._command = command
        self._text = text

    def fields(self) -> dict[str, Any]:
        """
        Return the fields of ``trainingInput`` that flags set.

        Without those of roles, packages and arguments.
        """
        given: dict[str, Any] = {
            wire_name: value
            for name, wire_name in _PLAIN.items()
            if (value := self._command.last(name)) is not None
        }
        for name, wire_name in _COUNTS.items():
            if (value := self._command.last(name)) is not None:
                given[wire_name] = self.number(name, value)
        if (tier := self._command.last("scale-tier")) is not None:
            given["scaleTier"] = tier if self._text.parts_of(tier) else tier.upper().replace("-", "_")
        if (chief := self._command.last("use-chief-in-tf-config")) is not None:
            given["useChiefInTfConfig"] = self.boolean("use-chief-in-tf-config", chief)
        if self._command.last("enable-web-access") == "true":
            given["enableWebAccess"] = True
        if (key := self.kms_key()) is not None:
            given["encryptionConfig"] = {"kmsKeyName": key}
        return given

    def words(self, name: str) -> list[str]:
        """Return a list's items: ``a,b``, or with a delimiter of its own ``^:^a:b``."""
        value = self._command.last(name)
        return [item for item in _items(value) if item] if value else []

    def pairs(self, name: str) -> dict[str, str]:
        """Return ``key=value,...`` of every time the flag is given."""
        pairs = [item for value in self._command.flags.get(name, ()) for item in _items(value)]
        return dict(self._pair(name, pair) for pair in pairs)

    def number(self, name: str, value: str) -> int | str:
        """Return a number, or text that has a shell part."""
        if self._text.parts_of(value):
            return value
        try:
            return int(value)
        except ValueError as error:
            raise InvalidCommand(f"--{name} must be a whole number, got {value!r}") from error

    def boolean(self, name: str, value: str) -> bool | str:
        """Return a boolean, or text that has a shell part."""
        if self._text.parts_of(value):
            return value
        if value.lower() in (*_TRUE, *_FALSE):
            return value.lower() in _TRUE
        raise InvalidCommand(f"--{name} must be true or false, got {value!r}")

    def kms_key(self) -> str | None:
        """Return the whole name of the key."""
        key = self._command.last("kms-key")
        if key is None or "/" in key:
            return key
        project = self._command.last("kms-project") or self._command.last("project")
        place, ring = self._command.last("kms-location"), self._command.last("kms-keyring")
        if not (project and place and ring):
            raise InvalidCommand(
                "--kms-key must be a whole name, projects/P/locations/L/keyRings/R/cryptoKeys/K, or come "
                "with --kms-keyring, "
                "--kms-location and --kms-project"
            )
        return f"projects/{project}/locations/{place}/keyRings/{ring}/cryptoKeys/{key}"

    def role_config(self, role: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return the ``ReplicaConfig`` of a role.

        Its flags override the file, field by field.
        """
        config = dict(given)
        if image := self._command.last(f"{role}-image-uri"):
            config["imageUri"] = image
        if self._command.last(f"{role}-accelerator"):
            values = self.pairs(f"{role}-accelerator")
            if set(values) != {"type", "count"}:
                raise InvalidCommand(f"--{role}-accelerator must be type=TYPE,count=COUNT, got {values!r}")
            type_ = values["type"]
            config["acceleratorConfig"] = {
                "type": type_ if self._text.parts_of(type_) else type_.upper().replace("-", "_"),
                "count": self.number(f"{role}-accelerator", values["count"]),
            }
        version = self._command.last("tpu-tf-version")
        if role == "worker" and version:
            config["tpuTfVersion"] = version
        return config

    def _pair(self, name: str, pair: str) -> tuple[str, str]:
        key, separator, value = pair.partition("=")
        if not separator:
            raise InvalidCommand(f"--{name} must be KEY=VALUE,..., got {self._text.as_written(pair)!r}")
        return key, value


def _items(value: str) -> list[str]:
    """Source: ``gcloud topic escaping``."""
    delimiter = ","
    if value.startswith("^") and "^" in value[1:]:
        _, delimiter, value = value.split("^", 2)
    return [item.strip() if delimiter == "," else item for item in value.split(delimiter or ",")]
