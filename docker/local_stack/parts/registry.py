"""The image registry: Debian's ``docker-registry``, or the image ``registry:2``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from local_stack.errors import PackagesMissing
from local_stack.parts.part import Listener, StackPart, answer_status
from local_stack.people.credentials import registry_auth
from local_stack.processes.packages import PackageInstaller, find_program
from local_stack.processes.supervisor_config import Program
from local_stack.settings import LOOPBACK, Part, StackSettings

PACKAGE = "docker-registry"


def find_registry_program(settings: StackSettings) -> Path | None:
    """Return the ``docker-registry`` program that is installed or was unpacked, or None."""
    unpacked = settings.tools_dir / PACKAGE / "usr" / "bin" / PACKAGE
    return unpacked if unpacked.is_file() else find_program(PACKAGE)


def ensure_registry_program(settings: StackSettings, packages: PackageInstaller) -> Path | None:
    """
    Return the ``docker-registry`` program, unpacked from its Debian package if need be.

    Unpacked, not installed: the package's service would listen on port 5000 of all interfaces.

    :return: None where packages cannot be had; then the image is the way.
    """
    found = find_registry_program(settings)
    if found is not None or packages.refusal() is not None:
        return found
    try:
        packages.unpack(PACKAGE, settings.tools_dir / PACKAGE)
    except PackagesMissing as error:
        packages.progress.say(f"{error}; using the image {settings.registry_image} instead")
    return find_registry_program(settings)


class Registry(StackPart):
    """
    A registry on loopback with its images in the state folder.

    The training service decides who may do what.
    """

    name = Part.REGISTRY

    def address(self) -> str:
        """Return ``HOST:PORT``."""
        return self.settings.registry

    def is_healthy(self) -> bool:
        """Tell whether the API answers that it wants a token."""
        return answer_status(f"http://{self.settings.registry}/v2/") == httpx.codes.UNAUTHORIZED

    def prepare(self) -> None:
        """Find or unpack the program, and write its configuration."""
        ensure_registry_program(self.settings, self.packages)
        self._data.mkdir(parents=True, exist_ok=True)
        configuration = registry_configuration(
            data=str(self._data), address=self.settings.registry, auth=registry_auth(self.settings)
        )
        self._config.write_text(json.dumps(configuration, indent=2), encoding="utf-8")

    def listeners(self) -> Sequence[Listener]:
        """Return the registry's address."""
        return [
            Listener(host=LOOPBACK, port=self.settings.registry_port, setting="LOCAL_STACK_REGISTRY_PORT")
        ]

    def programs(self) -> Sequence[Program]:
        """Return the registry itself, or the program that runs its image."""
        binary = find_registry_program(self.settings)
        if binary is not None:
            return [Program(name=self.name.value, command=(str(binary), "serve", str(self._config)))]
        return [
            Program(
                name=self.name.value,
                command=(
                    sys.executable,
                    "-m",
                    "local_stack.images.registry_container",
                    f"--engine={self.settings.engine_url}",
                    f"--image={self.settings.registry_image}",
                    f"--port={self.settings.registry_port}",
                    f"--data={self._data}",
                    f"--config={self._config}",
                ),
                stop_wait_seconds=20,
            )
        ]

    @property
    def _data(self) -> Path:
        return self.settings.state_dir.absolute() / "registry"

    @property
    def _config(self) -> Path:
        return self.settings.state_dir.absolute() / "registry.yml"


def registry_configuration(*, data: str, address: str, auth: Mapping[str, object]) -> dict[str, object]:
    """
    Return the registry's configuration. Pure.

    JSON, of which YAML is a superset: https://distribution.github.io/distribution/about/configuration/
    """
    return {
        "version": 0.1,
        "log": {"level": "info", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": data},
            "delete": {"enabled": True},
            "cache": {"blobdescriptor": "inmemory"},
        },
        "http": {"addr": address},
        "auth": auth,
    }
