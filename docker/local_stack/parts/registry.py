"""The image registry: Debian's ``docker-registry``, or the image ``registry:2``."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from local_stack.errors import PackagesMissing
from local_stack.machines.authority import AuthorityFiles
from local_stack.parts.part import Listener, StackPart, answer_status
from local_stack.people.credentials import registry_auth
from local_stack.processes.packages import PackageInstaller, find_program
from local_stack.processes.supervisor_config import Program
from local_stack.settings import Part, StackSettings

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
    A registry with its images in the state folder.

    It listens on loopback; where other machines take part, with TLS at the address that they reach.

    The training service decides who may do what.
    """

    name = Part.REGISTRY

    def address(self) -> str:
        """Return ``HOST:PORT``."""
        return self.settings.registry

    def is_healthy(self) -> bool:
        """Tell whether the API answers that it wants a token."""
        url = f"{self.settings.registry_url}/v2/"
        return answer_status(url, self.settings.authority_file) == httpx.codes.UNAUTHORIZED

    def prepare(self) -> None:
        """Find or unpack the program, and write its configuration."""
        ensure_registry_program(self.settings, self.packages)
        self._data.mkdir(parents=True, exist_ok=True)
        configuration = registry_configuration(
            data=str(self._data),
            address=self.settings.registry,
            auth=registry_auth(self.settings),
            tls=self._tls() if self.settings.is_advertised else None,
        )
        self._config.write_text(json.dumps(configuration, indent=2), encoding="utf-8")

    def listeners(self) -> Sequence[Listener]:
        """Return the registry's address."""
        return [
            Listener(
                host=self.settings.registry_host,
                port=self.settings.registry_port,
                setting="LOCAL_STACK_REGISTRY_PORT",
            )
        ]

    def programs(self) -> Sequence[Program]:
        """Return the registry itself, or the program that runs its image."""
        binary = find_registry_program(self.settings)
        if binary is not None:
            command: tuple[str, ...] = (str(binary), "serve", str(self._config))
            return [Program(name=self.name.value, command=command, environment=self._certificate_mark())]
        return [
            Program(
                name=self.name.value,
                command=(
                    sys.executable,
                    "-m",
                    "local_stack.images.registry_container",
                    f"--engine={self.settings.engine_url}",
                    f"--image={self.settings.registry_image}",
                    f"--host={self.settings.registry_host}",
                    f"--port={self.settings.registry_port}",
                    f"--data={self._data}",
                    f"--config={self._config}",
                ),
                environment=self._certificate_mark(),
                stop_wait_seconds=20,
            )
        ]

    def _tls(self) -> dict[str, str]:
        files = AuthorityFiles(self.settings.machines_dir)
        return {"certificate": str(files.certificate), "key": str(files.key)}

    def _certificate_mark(self) -> dict[str, str]:
        """Return what makes the registry start again with a renewed certificate."""
        if not self.settings.is_advertised:
            return {}
        content = Path(self._tls()["certificate"]).read_bytes() + self._config.read_bytes()
        return {"LOCAL_STACK_CERTIFICATE_SHA256": hashlib.sha256(content).hexdigest()}

    @property
    def _data(self) -> Path:
        return self.settings.state_dir.absolute() / "registry"

    @property
    def _config(self) -> Path:
        return self.settings.state_dir.absolute() / "registry.yml"


def registry_configuration(
    *, data: str, address: str, auth: Mapping[str, object], tls: Mapping[str, str] | None = None
) -> dict[str, object]:
    """
    Return the registry's configuration. Pure.

    :param tls: paths of ``certificate`` and ``key``; none: plain HTTP, for loopback.

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
        "http": {"addr": address, **({"tls": dict(tls)} if tls else {})},
        "auth": auth,
    }
