"""The stack of docker/compose.yaml: its secrets, its variables, and its start."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx

from local_stack.errors import EngineMissing, PackagesMissing, PartFailed
from local_stack.images.debian_image import REPOSITORY, SUITE
from local_stack.parts.airflow import airflow_connections
from local_stack.parts.base_image import BaseImage
from local_stack.parts.engine import connect
from local_stack.parts.gateway import find_gateway
from local_stack.parts.object_store import make_bucket
from local_stack.parts.registry import registry_configuration
from local_stack.parts.runtime_image import image_aliases, runtime_image, runtime_images
from local_stack.people.airflow_users import ADMIN, ORPHAN_FINDER
from local_stack.people.credentials import (
    airflow_token,
    digest,
    ensure_credentials,
    google_key,
    registry_auth,
    write_private,
)
from local_stack.settings import LOOPBACK, REPOSITORY_ROOT, Part, StackSettings
from local_stack.stack import LocalStack

#: Debian 12 packages only Compose 1, which is unmaintained. This binary depends on nothing but the C library.
PACKAGE, PACKAGE_SUITE = "docker-compose", "trixie"
TRAINING_PORT = 8470
#: Whom Airflow's own image runs as. Files of root, who makes them, are given to this user.
AIRFLOW_UID = 50000
_ROLES = {ADMIN: "Admin", ORPHAN_FINDER: "Viewer"}
_ROOTS_METRICS = Path("/var/lib/container-training")


class Production:
    """
    The stack of docker/compose.yaml.

    :param stack: a local stack with its own folder; only its engine and its base image are used.
    """

    def __init__(self, stack: LocalStack) -> None:
        settings = stack.settings.model_copy(
            update={
                "state_dir": stack.settings.state_dir / "compose",
                "require_auth": True,
                "advertise_address": None,
            }
        )
        self._stack = stack
        self._settings: StackSettings = settings
        self._folder = settings.state_dir.absolute()
        self._uid = os.getuid() or AIRFLOW_UID
        # Its path is the same in the containers of the service, whose user cannot look into /root.
        mark = hashlib.sha256(bytes(self._folder)).hexdigest()[:12]
        self._metrics = self._folder / "metrics" if os.getuid() else _ROOTS_METRICS / f"metrics-{mark}"
        self._gateway = f"{settings.compose_subnet}.1"

    def prepare(self) -> None:
        """
        Make what is missing: base image, secrets, and the variables of docker/compose.yaml.

        :raises LocalStackError: there is no engine on this machine, or no base image.
        """
        self._stack.up([Part.ENGINE, Part.BASE_IMAGE])
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._make_secrets()
        self._write_variables()

    def up(self) -> None:
        """
        Prepare, build the images, and start everything; may be repeated.

        :raises LocalStackError: the engine or Docker Compose is missing, or a service does not start.
        """
        self.prepare()
        self.compose("build")
        self.compose("up", "--detach", "--remove-orphans", "--wait")
        try:
            make_bucket(self._settings.object_store_url, self._settings)
        except httpx.HTTPError as error:
            raise PartFailed("object-store", f"refused to make the bucket of jobs: {error}") from error

    def down(self, *, volumes: bool = False) -> None:
        """Stop and remove the containers; secrets stay, and volumes and metrics unless ``volumes``."""
        if self._variables.exists():
            self.compose("down", *(["--volumes"] if volumes else []))
        if volumes:
            # Root's are outside of the folder.
            shutil.rmtree(self._metrics, ignore_errors=True)

    def summary(self) -> str:
        """Return where people reach the stack, and with which login."""
        secrets, settings = self._folder / "secrets", self._settings
        airflow = secrets / f"airflow-password-{ADMIN}"
        monitoring = {
            name: f"http://{LOOPBACK}:{os.environ.get(f'{name.upper()}_PORT', port)}"
            for name, port in (("Prometheus", "9090"), ("Grafana", "3000"))
        }
        # The second network is the upper half of the subnet.
        training = " or ".join(
            f"http://{settings.compose_subnet}.{host}:{TRAINING_PORT}" for host in (1, 129)
        )
        grafana = f"{monitoring['Grafana']}, user admin, password in {secrets / 'grafana-password'}"
        if not self._has_public_images:
            grafana = "left out: the official image cannot be had, and Debian has none"
        lines = {
            "Airflow": f"{settings.airflow_url}, user {ADMIN}, password in {airflow}",
            "training": f"{training}, token in {settings.developer_token_file}",
            "registry": f"{settings.registry}, login in {settings.docker_config_dir}",
            "object store": settings.object_store_url,
            "Prometheus": monitoring["Prometheus"],
            "Grafana": grafana,
        }
        return "\n".join(f"{name + ':':14}{text}" for name, text in lines.items())

    @property
    def settings(self) -> StackSettings:
        """The settings in which the files of this stack are."""
        return self._settings

    @property
    def _variables(self) -> Path:
        return self._folder / "compose.env"

    @property
    def _base_image(self) -> str:
        return BaseImage.name_of(self._stack.settings)

    @property
    def _has_public_images(self) -> bool:
        return not self._base_image.startswith(f"{REPOSITORY}:{SUITE}-")

    def _make_secrets(self) -> None:
        settings = self._settings
        prometheus = self._once("prometheus-token")
        ensure_credentials(
            settings,
            {"principal": "serviceAccount:prometheus@stack", "sha256": digest(prometheus), "admin": True},
        )
        for name in ("postgres-password", "airflow-secret-key", "airflow-jwt-secret", "grafana-password"):
            self._once(name)
        self._once("airflow-fernet-key", lambda: base64.urlsafe_b64encode(os.urandom(32)).decode())
        redis = self._once("redis-password")
        self._write("redis-configuration", f"requirepass {redis}\nbind * -::*\ndir /data\nappendonly yes\n")
        self._write("airflow-broker-url", f"redis://:{redis}@redis:6379/0")
        roles = []
        for role in ("airflow", "training"):
            password = self._once(f"{role}-database-password")
            self._write(f"{role}-pgpass", f"*:*:*:{role}:{password}\n")
            roles += [
                f"CREATE ROLE {role} LOGIN PASSWORD '{password}';",
                f"CREATE DATABASE {role} OWNER {role};",
            ]
        self._write("postgres-roles", "\n".join(roles) + "\n")
        passwords = {user: self._once(f"airflow-password-{user}") for user in _ROLES}
        users = {user: {"role": role, "password": passwords[user]} for user, role in _ROLES.items()}
        self._write("airflow-users", json.dumps(users))
        inside = settings.model_copy(update={"training_port": TRAINING_PORT, "airflow_port": 8080})
        connections = airflow_connections(
            inside,
            base_image=self._base_image,
            token=airflow_token(settings),
            google_key=google_key(inside, "training"),
            finder_password=passwords[ORPHAN_FINDER],
            training_host="training",
            airflow_host="api-server",
        )
        self._write("airflow-connections", json.dumps(connections))
        self._write("training-tokens", settings.tokens_file.read_text("utf-8"))
        auth = registry_auth(settings, f"http://{self._gateway}:{TRAINING_PORT}")
        auth = {"token": auth["token"] | {"rootcertbundle": "/etc/registry-token-certificate.pem"}}
        registry = registry_configuration(data="/var/lib/registry", address=":5000", auth=auth)
        self._write("registry-configuration", json.dumps(registry))
        for folder in (settings.secrets_dir, self._metrics):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in (settings.key_dir, *settings.key_dir.rglob("*"), self._metrics):
            self._give(path)

    def _once(self, name: str, make: Callable[[], str] = lambda: secrets.token_urlsafe(32)) -> str:
        """Return the secret ``name``; made up the first time."""
        path = self._folder / "secrets" / name
        if not path.exists():
            self._write(name, make())
        return path.read_text("utf-8")

    def _write(self, name: str, content: str) -> None:
        path = self._folder / "secrets" / name
        # A container keeps the file that it was started with: a new one only for new content.
        if not path.exists() or path.read_text("utf-8") != content:
            write_private(path, content)
        self._give(path)

    def _give(self, path: Path) -> None:
        """Make the user of the stack the owner; only root has to."""
        if os.getuid() == 0:
            os.chown(path, self._uid, 0)

    def _write_variables(self) -> None:
        settings, base = self._settings, self._base_image
        if not settings.engine_url.startswith("unix://"):
            raise EngineMissing(
                f"the stack of docker/compose.yaml needs an engine on this machine, at a unix socket, got "
                f"{settings.engine_url!r}"
            )
        client = connect(settings.engine_url, timeout_seconds=300)
        try:
            runtime_image(base).ensure(client, self._stack.progress)
        finally:
            client.close()
        socket = Path(settings.engine_url.removeprefix("unix://"))
        variables = {
            "STACK_DIR": self._folder,
            "METRICS_DIR": self._metrics,
            "STACK_UID": self._uid,
            "STACK_SUBNET": settings.compose_subnet,
            "DOCKER_SOCKET": socket,
            "DOCKER_GID": socket.stat().st_gid,
            "BRIDGE_ADDRESS": find_gateway(settings.engine_url),
            "BASE_IMAGE": base,
            "PROJECT": settings.project,
            "AIRFLOW_PORT": settings.airflow_port,
            "REGISTRY_PORT": settings.registry_port,
            "OBJECT_STORE_PORT": settings.object_store_port,
            "METADATA_PORT": settings.metadata_port,
            "CONTAINER_ENV": json.dumps(settings.container_environment),
            "RUNTIME_IMAGES": json.dumps(runtime_images(runtime_image(base).name)),
            "IMAGE_ALIASES": json.dumps(image_aliases(runtime_image(base).name)),
            **(
                {"COMPOSE_PROFILES": "grafana"}
                if self._has_public_images
                else {"AIRFLOW_BASE": "debian-airflow"}
            ),
        }
        # In single quotes nothing is replaced.
        lines = [f"{name}='{value}'\n" for name, value in variables.items()]
        write_private(self._variables, "".join(lines))

    def compose(
        self,
        *arguments: str,
        folder: Path = REPOSITORY_ROOT / "docker",
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """
        Run Docker Compose.

        :param folder: of the files of Compose; default: this checkout's.
        :raises PartFailed: it did not end well.
        """
        files = ["compose.yaml", *([] if self._has_public_images else ["compose.debian.yaml"])]
        command = [*self._program(), "--env-file", str(self._variables)]
        for file in files:
            command += ["--file", str(folder / file)]
        environment = {**environment, "DOCKER_HOST": self._settings.engine_url}
        done = subprocess.run([*command, *arguments], check=False, env=environment)
        if done.returncode != 0:
            way_out = "its messages are above; `docker ps --all` and `docker logs NAME` show more"
            reason = f"{arguments[0]} ended with status {done.returncode}; {way_out}"
            raise PartFailed("docker compose", reason)

    def _program(self) -> Sequence[str]:
        """Return the command of Docker Compose, version 2 or newer; Debian's where there is none."""
        docker = shutil.which("docker")
        if docker and _runs([docker, "compose", "version"]):
            return [docker, "compose"]
        folder = self._settings.tools_dir / PACKAGE
        program = folder / "usr" / "libexec" / "docker" / "cli-plugins" / PACKAGE
        if not program.exists():
            if self._stack.packages.refusal() is not None:
                raise PackagesMissing("Docker Compose 2 is missing; install the plugin docker-compose-plugin")
            self._stack.packages.unpack(PACKAGE, folder, suite=PACKAGE_SUITE)
        return [str(program)]


def _runs(command: Sequence[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
