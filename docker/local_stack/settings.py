"""
What can be set about the local stack; the only place that reads the environment.

Each field is an environment variable with the prefix ``LOCAL_STACK_``, in capitals; keyword arguments win
over the environment, which is what the tests use.
"""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv4Address
from pathlib import Path
from typing import Self

from pydantic import AliasChoices, Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from local_stack.errors import LocalStackError

REPOSITORY_ROOT = Path(__file__).resolve().parents[2]

LOOPBACK = "127.0.0.1"
"""Address of every part; the object store and the metadata of jobs use the one of containers, too."""

CONTAINER_HOST_NAME = "host.docker.internal"
#: What clients of Cloud Storage leave out. gcsfs asks for a bucket's type by gRPC with TLS, which a local
#: store cannot have: 60 s a bucket. google-cloud-storage asks for the bucket beside its first request, for
#: attributes of traces.
STORAGE_CLIENTS = {
    "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
    "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA": "true",
}
"""How containers name this machine; jobs get it with ``extra_hosts`` and the value ``host-gateway``."""

PORTS = (
    *("registry_port", "object_store_port", "training_port", "airflow_port", "metadata_port"),
    *("grpc_port", "vertex_proxy_port", "gate_port"),
)
"""The settings that are ports of one stack."""

MAX_SOCKET_PATH_BYTES = 100
"""A path of a unix socket has at most 107 bytes (unix(7)); supervisord appends ``.<pid>`` while it starts."""


class Part(StrEnum):
    """One part of the stack, in the order in which the parts are started."""

    ENGINE = "engine"
    BASE_IMAGE = "base-image"
    MACHINES = "machines"
    REGISTRY = "registry"
    OBJECT_STORE = "object-store"
    TRAINING = "training"
    DATABASE = "database"
    AIRFLOW = "airflow"


class AirflowDatabase(StrEnum):
    """What Airflow keeps its state in."""

    #: PostgreSQL where it is installed or can be, else SQLite. A stack keeps what it began with.
    AUTO = "auto"
    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"


class Backend(StrEnum):
    """By which API Airflow's connection ``training_default`` asks the training service."""

    ML_V1 = "ml.v1"
    VERTEX = "vertex"


SERVE_PARTS = (
    *(Part.ENGINE, Part.BASE_IMAGE, Part.MACHINES, Part.REGISTRY, Part.OBJECT_STORE, Part.TRAINING),
)
"""Everything that a job needs: the stack without Airflow."""

ALL_PARTS = tuple(Part)


class StackSettings(BaseSettings):
    """
    Addresses, folders and names of one local stack; several can run at once if these differ.

    :raises LocalStackError: the state folder's path is too long for a unix socket in it, or two parts share a
        port.
    """

    model_config = SettingsConfigDict(
        env_prefix="LOCAL_STACK_", frozen=True, extra="forbid", populate_by_name=True
    )

    state_dir: Path = REPOSITORY_ROOT / ".local"
    """State, logs, configuration and sockets of this stack."""
    tools_dir: Path = REPOSITORY_ROOT / ".local" / "tools"
    """Programs unpacked from operating system packages; stacks may share it."""

    project: str = "demo-project"
    bucket: str = "demo-bucket"
    registry_port: int = Field(default=5000, ge=1, le=65535)
    object_store_port: int = Field(default=9023, ge=1, le=65535)
    training_port: int = Field(default=8470, ge=1, le=65535)
    airflow_port: int = Field(default=8080, ge=1, le=65535)
    metadata_port: int = Field(default=8471, ge=1, le=65535)
    grpc_port: int = Field(default=8472, ge=0, le=65535)
    """Of the training service's gRPC for Vertex AI; 0: it has none."""
    vertex_proxy_port: int = Field(default=8473, ge=1, le=65535)
    """Of the proxy that leads clients of Vertex AI to it."""
    gate_port: int = Field(default=8474, ge=1, le=65535)
    """Where other machines reach the training service by TLS, and join; with ``advertise_address`` only."""

    advertise_address: IPv4Address | None = None
    """The address of this machine at which other machines reach it; unset: nothing listens for them."""
    join_minutes: int = Field(default=30, ge=1, le=24 * 60)
    """For how long the token of a join command can be used."""
    engine_certificates_dir: Path = Path("/etc/docker/certs.d")
    """Where this machine's engine finds the authorities of registries."""

    compose_subnet: str = Field(default="172.30.99", pattern=r"^\d{1,3}\.\d{1,3}\.\d{1,3}$")
    """The first three numbers of the addresses in the networks of docker/compose.yaml."""
    require_auth: bool = False
    """Whether the training service wants a token with every request; the registry always does."""
    training_environment: dict[str, str] = {}
    """More ``TRAINING_*`` settings for the training service."""
    prices: dict[str, float] = {}
    """Price per second of a machine type or accelerator, for Airflow's connection; none: no cost is shown."""
    currency: str = ""
    """What the prices are in."""
    airflow_database: AirflowDatabase = AirflowDatabase.AUTO
    """What Airflow keeps its state in."""
    database_dir: Path | None = None
    """PostgreSQL's folder; unset: below the state folder, or, for root, below /var/lib/container-training."""
    backend: Backend = Field(
        default=Backend.ML_V1, validation_alias=AliasChoices("LOCAL_STACK_BACKEND", "BACKEND")
    )
    """By which API Airflow's connection ``training_default`` asks the training service."""
    airflow_environment: dict[str, str] = {}
    """More variables for Airflow: ``AIRFLOW__SECTION__KEY``, ``AIRFLOW_CONN_...``, and what DAGs read."""

    docker_host: str | None = Field(
        default=None, validation_alias=AliasChoices("LOCAL_STACK_DOCKER_HOST", "DOCKER_HOST")
    )
    """URL of the engine to use; unset means ``engine_socket``."""
    engine_socket: Path = Path("/var/run/docker.sock")
    """Where the engine is looked for, and where an engine of our own listens."""
    engine_data_root: Path | None = None
    engine_exec_root: Path = Path("/var/run/docker")
    engine_pid_file: Path = Path("/var/run/docker.pid")
    engine_arguments: tuple[str, ...] = ()
    """More arguments for an engine of our own."""

    install_packages: bool = True
    """Whether missing programs may be installed with apt-get (as root, on Debian and Ubuntu)."""

    base_image: str | None = None
    """Base image of Dockerfiles; unset: the public image, or a local one if that is not available."""
    public_base_image: str = (
        "python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b"
    )
    """By digest, as the Dockerfiles name it; ``docker buildx imagetools inspect TAG`` says that of today."""
    registry_probe_url: str = "https://registry-1.docker.io/v2/"
    registry_image: str = "registry:2@sha256:a3d8aaa63ed8681a604f1dea0aa03f100d5895b6a58ace528858a7b332415373"
    """The registry's image, used where the Debian package ``docker-registry`` cannot be had."""
    debian_mirror: str | None = None
    """Mirror for debootstrap; unset means debootstrap's own default."""
    build_dir: Path = Path("/var/tmp")  # noqa: S108  # a private folder is made below it; /tmp is often nodev
    """Where the root file system of the base image is built; must allow device files."""
    trust_host_authorities: bool | None = None
    """Copy this machine's certificate bundle into the base image; unset: if it trusts extra authorities."""

    health_timeout_seconds: float = Field(default=60.0, gt=0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        socket = self.supervisor_socket
        size = len(bytes(socket))
        if size > MAX_SOCKET_PATH_BYTES:
            raise LocalStackError(
                f"the path of the supervisor's socket must have at most {MAX_SOCKET_PATH_BYTES} bytes, got "
                f"{size}: {str(socket)!r}; set LOCAL_STACK_STATE_DIR to a shorter folder"
            )
        if "%" in str(socket):
            # supervisord expands %(name)s in the paths of logs twice, so that no escape helps.
            raise LocalStackError(
                f"the state folder must not have a '%' in its path, got {str(self.state_dir)!r}"
            )
        if self.advertise_address is not None:
            told = self.training_environment.get("TRAINING_REQUIRE_AUTH", "true").lower()
            _check_advertised(
                self.advertise_address, require_auth=self.require_auth and told in ("true", "1", "yes", "on")
            )
        ports: dict[int, str] = {}
        for name in PORTS:
            port = getattr(self, name)
            if port in ports:
                raise LocalStackError(f"{name} and {ports[port]} must differ, got {port} for both")
            ports[port] = name
        return self

    @property
    def supervisor_socket(self) -> Path:
        """The unix socket on which the process manager of this stack is controlled."""
        return self.state_dir.absolute() / "supervisor.sock"

    @property
    def log_dir(self) -> Path:
        """One log file a program."""
        return self.state_dir.absolute() / "logs"

    @property
    def key_dir(self) -> Path:
        """Where the training service keeps the key with which it signs tokens."""
        return self.state_dir.absolute() / "training"

    @property
    def secrets_dir(self) -> Path:
        """Where the training service finds the secrets that jobs may name."""
        return self.key_dir / "secrets"

    @property
    def certificates_dir(self) -> Path:
        """Where the training service keeps the certificate for Vertex AI's names."""
        return self.key_dir / "tls"

    @property
    def credentials_dir(self) -> Path:
        """The stack's own secrets, each in a file for its owner alone."""
        return self.state_dir.absolute() / "access"

    @property
    def developer_token_file(self) -> Path:
        """The token of this machine's user."""
        return self.credentials_dir / "developer-token"

    @property
    def airflow_token_file(self) -> Path:
        """The token of this stack's Airflow."""
        return self.credentials_dir / "airflow-token"

    @property
    def google_key_file(self) -> Path:
        """The key of Airflow's account, for Google's libraries; there with ``require_auth``."""
        return self.credentials_dir / "airflow-google-key.json"

    @property
    def tokens_file(self) -> Path:
        """The training service's list of tokens and principals."""
        return self.credentials_dir / "tokens.json"

    @property
    def docker_config_dir(self) -> Path:
        """For DOCKER_CONFIG: a Docker configuration with the login for the registry."""
        return self.credentials_dir / "docker"

    @property
    def default_engine_url(self) -> str:
        """The URL of the engine when nobody names another one."""
        return f"unix://{self.engine_socket}"

    @property
    def engine_url(self) -> str:
        """The URL of the engine that this stack uses."""
        return self.docker_host or self.default_engine_url

    @property
    def is_advertised(self) -> bool:
        """Whether other machines take part, so that the stack listens for them."""
        return self.advertise_address is not None

    @property
    def machines_dir(self) -> Path:
        """What this stack has for other machines: its authority, and the tokens of join commands."""
        return self.state_dir.absolute() / "machines"

    @property
    def authority_file(self) -> Path:
        """The certificate of the authority that other machines trust for this stack."""
        return self.machines_dir / "authority.pem"

    @property
    def authorities_bundle(self) -> Path:
        """The same after those that clients trust anyway, for clients that take one file."""
        return self.machines_dir / "bundle.pem"

    @property
    def registry_host(self) -> str:
        """Where the registry listens: one for all machines, as images are named by it."""
        return str(self.advertise_address or LOOPBACK)

    @property
    def registry(self) -> str:
        """``HOST:PORT`` of the registry, the first part of image names."""
        return f"{self.registry_host}:{self.registry_port}"

    @property
    def registry_url(self) -> str:
        """The registry's API: over TLS where it is not on loopback."""
        return f"{'https' if self.is_advertised else 'http'}://{self.registry}"

    @property
    def gate_url(self) -> str:
        """The training service as other machines reach it; with ``advertise_address`` only."""
        return f"https://{self.advertise_address}:{self.gate_port}"

    @property
    def image_prefix(self) -> str:
        """What the name of an image starts with so that a push reaches the local registry."""
        return f"{self.registry}/{self.project}"

    @property
    def object_store_url(self) -> str:
        """The object store as programs of this machine reach it."""
        return f"http://{LOOPBACK}:{self.object_store_port}"

    @property
    def container_environment(self) -> dict[str, str]:
        """What containers of jobs get so that Google's clients in them use the local object store."""
        host = self.advertise_address or CONTAINER_HOST_NAME
        return {"STORAGE_EMULATOR_HOST": f"http://{host}:{self.object_store_port}", **STORAGE_CLIENTS}

    @property
    def authorities_environment(self) -> dict[str, str]:
        """What Python's clients need to trust the registry; empty where it has no TLS."""
        if not self.is_advertised:
            return {}
        return dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), str(self.authorities_bundle))

    @property
    def agent_folder(self) -> Path:
        """Where every machine keeps the metrics of its containers, for its agent alone."""
        default = "/var/lib/container-training/agents"
        return Path(self.training_environment.get("TRAINING_AGENT_FOLDER", default))

    @property
    def job_bucket(self) -> str:
        """The folder below which jobs keep their results, a ``gs://`` URI."""
        return f"gs://{self.bucket}/jobs"

    @property
    def training_url(self) -> str:
        """The training service, which is also what clients call the API's endpoint."""
        return f"http://{LOOPBACK}:{self.training_port}"

    @property
    def vertex_url(self) -> str:
        """Vertex AI's API over REST, for clients that are told an endpoint."""
        return f"{self.training_url}/vertex"

    @property
    def vertex_environment(self) -> dict[str, str]:
        """What clients of gRPC need so that Vertex AI's names lead to the training service."""
        return {
            "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(self.certificates_dir / "bundle.pem"),
            "grpc_proxy": f"http://{LOOPBACK}:{self.vertex_proxy_port}",
            # The proxy leads nowhere else.
            "no_grpc_proxy": f"localhost,{LOOPBACK}",
        }

    @property
    def airflow_url(self) -> str:
        """Airflow's UI and API."""
        return f"http://{LOOPBACK}:{self.airflow_port}"


def _check_advertised(address: IPv4Address, *, require_auth: bool) -> None:
    """:raises LocalStackError: others cannot reach the address, or reach it without a token."""
    if address.is_loopback or address.is_unspecified or address.is_multicast or address.is_reserved:
        raise LocalStackError(
            "LOCAL_STACK_ADVERTISE_ADDRESS must be an address of this machine that other machines reach, got "
            f"{address}; unset it to listen on loopback only"
        )
    if not require_auth:
        raise LocalStackError(
            f"LOCAL_STACK_ADVERTISE_ADDRESS={address} needs LOCAL_STACK_REQUIRE_AUTH=true, and no other "
            "TRAINING_REQUIRE_AUTH in LOCAL_STACK_TRAINING_ENVIRONMENT: whoever reaches the training service without "
            "a token may run code here"
        )
