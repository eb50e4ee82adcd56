"""The training service of this repository, as one part of the stack."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from local_stack.errors import PackagesMissing, PartFailed
from local_stack.parts.base_image import BaseImage
from local_stack.parts.engine import connect
from local_stack.parts.gateway import find_gateway
from local_stack.parts.part import Listener, StackPart, answers_ok
from local_stack.parts.runtime_image import (
    ensure_runtime_image,
    image_aliases,
    push_runtime_image,
    pushed_name,
    runtime_images,
)
from local_stack.people.credentials import ensure_credentials, registry_login
from local_stack.processes.packages import find_program
from local_stack.processes.supervisor_config import Program
from local_stack.settings import LOOPBACK, REPOSITORY_ROOT, Part

BUILD_TIMEOUT_SECONDS = 300


class Training(StackPart):
    """``python -m training_service serve`` on loopback, with its jobs in a SQLite file."""

    name = Part.TRAINING

    def address(self) -> str:
        """Return the endpoint of the API."""
        return self.settings.training_url

    def is_healthy(self) -> bool:
        """Tell whether the service says that it is healthy."""
        return answers_ok(f"{self.settings.training_url}/health")

    def prepare(self) -> None:
        """Make the database's folder, and the runtime versions' image."""
        self._data.mkdir(parents=True, exist_ok=True)
        client = connect(self.settings.engine_url, timeout_seconds=BUILD_TIMEOUT_SECONDS)
        try:
            ensure_runtime_image(client, BaseImage.name_of(self.settings), self.progress)
        except PartFailed as error:
            # Jobs of containers do not need it; those of packages say that it is missing.
            self.progress.say(f"{error}; jobs of packages will fail until `make serve` can build it")
        finally:
            client.close()
        if find_program("nft") is None:
            self._install_packet_filter()

    def _install_packet_filter(self) -> None:
        try:
            self.packages.install(["nftables"], start_services=False)
        except PackagesMissing as error:
            self.progress.say(f"{error}; until then jobs reach this machine and link-local addresses")

    def listeners(self) -> Sequence[Listener]:
        """Return the service's addresses, and that of the metadata of jobs on the engine's bridge."""
        found = [
            Listener(host=LOOPBACK, port=port, setting=f"LOCAL_STACK_{name}_PORT")
            for name, port in (
                ("TRAINING", self.settings.training_port),
                ("GRPC", self.settings.grpc_port),
                ("VERTEX_PROXY", self.settings.vertex_proxy_port),
            )
            if port
        ]
        if gateway := self._metadata_host():
            port = self.settings.metadata_port
            found.append(Listener(host=gateway, port=port, setting="LOCAL_STACK_METADATA_PORT"))
        return found

    def programs(self) -> Sequence[Program]:
        """Return the service, which knows the principals of now."""
        ensure_credentials(self.settings)
        tokens = self.settings.tokens_file
        return [
            Program(
                name=self.name.value,
                command=(sys.executable, "-m", "training_service", "serve"),
                directory=REPOSITORY_ROOT,
                environment={
                    "TRAINING_HOST": LOOPBACK,
                    "TRAINING_PORT": str(self.settings.training_port),
                    "TRAINING_DATABASE_URL": f"sqlite:///{self._data / 'jobs.db'}",
                    "TRAINING_CONTAINER_ENV": json.dumps(
                        self.settings.container_environment, separators=(",", ":")
                    ),
                    "TRAINING_RUNTIME_IMAGES": json.dumps(
                        runtime_images(BaseImage.name_of(self.settings), self._pushed_runtime()),
                        separators=(",", ":"),
                    ),
                    "TRAINING_IMAGE_ALIASES": json.dumps(
                        image_aliases(BaseImage.name_of(self.settings), self._pushed_runtime()),
                        separators=(",", ":"),
                    ),
                    "TRAINING_STORAGE_ENDPOINT": self.settings.object_store_url,
                    "TRAINING_KEY_DIR": str(self.settings.key_dir),
                    "TRAINING_SECRETS_DIR": str(self.settings.secrets_dir),
                    "TRAINING_REGISTRY": self.settings.registry,
                    "TRAINING_TOKENS_FILE": str(tokens),
                    # The service reads the file at its start: with other principals it is started again.
                    "LOCAL_STACK_TOKENS_SHA256": hashlib.sha256(tokens.read_bytes()).hexdigest(),
                    "TRAINING_REQUIRE_AUTH": str(self.settings.require_auth).lower(),
                    "TRAINING_METADATA_HOST": self._metadata_host(),
                    "TRAINING_METADATA_PORT": str(self.settings.metadata_port),
                    "TRAINING_GRPC_PORT": str(self.settings.grpc_port),
                    "TRAINING_VERTEX_PROXY_PORT": str(self.settings.vertex_proxy_port),
                    "TRAINING_CERTIFICATES_DIR": str(self.settings.certificates_dir),
                    "DOCKER_HOST": self.settings.engine_url,
                    **self._for_machines(),
                    "PYTHONUNBUFFERED": "1",
                    **self.settings.training_environment,
                },
            )
        ]

    def complete(self) -> None:
        """Push the runtime image, where other machines take part."""
        if not self.settings.is_advertised:
            return
        client = connect(self.settings.engine_url, timeout_seconds=BUILD_TIMEOUT_SECONDS)
        try:
            base, login = BaseImage.name_of(self.settings), registry_login(self.settings)
            push_runtime_image(client, base, self._pushed_runtime(), login)
        except PartFailed as error:
            self.progress.say(f"{error}; jobs of packages will fail until `make serve` can push it")
        finally:
            client.close()

    def _pushed_runtime(self) -> str:
        """Return the runtime image's name for all machines; empty: there is one machine."""
        settings = self.settings
        return (
            pushed_name(BaseImage.name_of(settings), settings.image_prefix) if settings.is_advertised else ""
        )

    def _metadata_host(self) -> str:
        """Return where containers of jobs get their tokens; empty: nowhere, as in a swarm."""
        return "" if self.settings.is_advertised else find_gateway(self.settings.engine_url) or ""

    def _for_machines(self) -> dict[str, str]:
        """Return what the service is told where other machines take part."""
        if not self.settings.is_advertised:
            return {}
        return {
            "TRAINING_ENGINE": "swarm",
            # Of requests that come by the gate.
            "TRAINING_ALLOWED_HOSTS": json.dumps([str(self.settings.advertise_address)]),
            **self.settings.authorities_environment,
        }

    @property
    def _data(self) -> Path:
        return self.settings.key_dir
