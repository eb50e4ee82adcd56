"""The training service of this repository, as one part of the stack."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import docker

from local_stack.errors import PackagesMissing, PartFailed
from local_stack.parts.agent_image import agent_image
from local_stack.parts.base_image import BaseImage
from local_stack.parts.engine import connect
from local_stack.parts.gateway import find_gateway
from local_stack.parts.own_image import OwnImage
from local_stack.parts.part import Listener, StackPart, answers_ok
from local_stack.parts.runtime_image import image_aliases, runtime_image, runtime_images
from local_stack.people.credentials import ensure_credentials, registry_login, stacks_registry_login
from local_stack.processes.packages import find_program
from local_stack.processes.supervisor_config import Program
from local_stack.settings import LOOPBACK, REPOSITORY_ROOT, Part

BUILD_TIMEOUT_SECONDS = 300
#: Set by users, it is theirs to build.
_AGENT_IMAGE = "TRAINING_AGENT_IMAGE"


class Training(StackPart):
    """``python -m training_service serve`` on loopback, with its jobs in a SQLite file."""

    name = Part.TRAINING
    #: Once they can be started: their image, by digest.
    _agent_image = ""

    def address(self) -> str:
        """Return the endpoint of the API."""
        return self.settings.training_url

    def is_healthy(self) -> bool:
        """Tell whether the service says that it is healthy."""
        return answers_ok(f"{self.settings.training_url}/health")

    def prepare(self) -> None:
        """Make the database's folder, the runtime versions' image, and what agents need."""
        self._data.mkdir(parents=True, exist_ok=True)
        client = connect(self.settings.engine_url, timeout_seconds=BUILD_TIMEOUT_SECONDS)
        try:
            self._runtime.ensure(client, self.progress)
        except PartFailed as error:
            # Jobs of containers do not need it; those of packages say that it is missing.
            self.progress.say(f"{error}; jobs of packages will fail until `make serve` can build it")
        try:
            self._agent_image = self._prepare_agents(client)
        except (PartFailed, OSError) as error:
            # Other jobs do not need them; tuning jobs say that they are missing.
            self.progress.say(f"{error}; tuning jobs will be refused until `make serve` can start agents")
        finally:
            client.close()
        if find_program("nft") is None:
            self._install_packet_filter()

    def _prepare_agents(self, client: docker.DockerClient) -> str:
        """
        Make what the agents of machines need; return their image, or nothing for no agents.

        By digest: they are root on their machines, and others push to the project's repositories, too.

        :raises PartFailed: their image cannot be built, or not be pushed.
        :raises OSError: their folder cannot be made.
        """
        settings = self.settings
        if not settings.is_advertised or _AGENT_IMAGE in settings.training_environment:
            return ""
        image = agent_image(BaseImage.name_of(settings))
        image.ensure(client, self.progress)
        settings.agent_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = image.pushed_name(settings.image_prefix)
        return image.push(client, name, stacks_registry_login(settings, name))

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
                        runtime_images(self._runtime_name), separators=(",", ":")
                    ),
                    "TRAINING_IMAGE_ALIASES": json.dumps(
                        image_aliases(self._runtime_name), separators=(",", ":")
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
            self._runtime.push(client, self._runtime_name, registry_login(self.settings))
        except PartFailed as error:
            self.progress.say(f"{error}; jobs of packages will fail until `make serve` can push it")
        finally:
            client.close()

    @property
    def _runtime(self) -> OwnImage:
        return runtime_image(BaseImage.name_of(self.settings))

    @property
    def _runtime_name(self) -> str:
        """The runtime image's name on all machines: with several, that in the registry."""
        image, settings = self._runtime, self.settings
        return image.pushed_name(settings.image_prefix) if settings.is_advertised else image.name

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
            **(self._for_agents() if self._agent_image else {}),
        }

    def _for_agents(self) -> dict[str, str]:
        """Return what the service is told of agents."""
        return {
            _AGENT_IMAGE: self._agent_image,
            "TRAINING_AGENT_URL": self.settings.gate_url,
            "TRAINING_AGENT_AUTHORITY": str(self.settings.authority_file),
            "TRAINING_AGENT_FOLDER": str(self.settings.agent_folder),
            # With another authority the service is started again, and its agents with it.
            "LOCAL_STACK_AUTHORITY_SHA256": hashlib.sha256(
                self.settings.authority_file.read_bytes()
            ).hexdigest(),
        }

    @property
    def _data(self) -> Path:
        return self.settings.key_dir
