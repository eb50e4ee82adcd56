"""The training service's settings: the only reader of the environment (``TRAINING_*``)."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

import sqlalchemy as sa
from pydantic import BeforeValidator, Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from container_engines.confinement import MACHINE_NAME, PIDS_LIMIT
from container_engines.disk_use import DiskUse
from container_engines.egress import Egress, EgressMode, Endpoint
from container_engines.pull_watch import DEADLINE_SECONDS, SILENT_SECONDS
from training_api.job.placement import Placement
from training_api.loopback import is_loopback
from training_service.model.container_runtimes import JobType
from training_service.model.disk.disk_guard import DATABASE, Floors
from training_service.model.disk.disk_limit import LIMIT
from training_service.model.host_capacity import Accelerators
from training_service.model.images.image_aliases import ImageAliases
from training_service.model.images.runtimes import RuntimeImage
from training_service.model.retention import Retention

_DEFAULT_PORTS = {"http": 80, "https": 443}


class LogFormat(StrEnum):
    """How the service writes its own log."""

    CONSOLE = "console"
    JSON = "json"


class EngineKind(StrEnum):
    """What containers run on."""

    DOCKER = "docker"  #: one machine: a Docker Engine
    SWARM = "swarm"  #: several machines: a Docker Swarm, through one of its managers


class ServiceSettings(BaseSettings):
    """
    All that can be set, with defaults for one machine.

    :param host: address to listen on; default: loopback.
    :param grpc_port: port of gRPC, for Vertex AI; 0: there is none.
    :param grpc_certificate: path of its certificate with the chain, PEM; empty, as is the key: plaintext.
    :param grpc_key: path of its key, PEM.
    :param grpc_plaintext: allow plaintext where ``host`` is not loopback.
    :param allowed_hosts: more host names that requests may use; loopback's and ``host`` always are allowed.
    :param database_url: SQLAlchemy URL; SQLite (WAL) or PostgreSQL.
    :param api_statement_seconds: how long one database statement of a request may take; else: 503.
    :param lease_seconds: PostgreSQL: how long the leading service may be unresponsive before a standby takes
        over. A service that has ended is replaced at once.
    :param require_auth: refuse callers without a bearer token, and what the IAM policies do not allow.
    :param tokens_file: bearer tokens and their principals (``access/tokens_file.py``).
    :param key_dir: folder of the key that signs the service's tokens; default: beside the database.
    :param registry: ``HOST:PORT`` of the registry for which this service issues tokens; empty: none.
    :param metadata_host: address of this machine that containers can reach, for the metadata endpoint of
        jobs: the gateway of the engine's bridge; empty: there is no such endpoint.
    :param metadata_port: its port. Running containers know it, so it must stay the same.
    :param vertex_proxy_port: port of the HTTP proxy that leads clients of Vertex AI to this service, and
        nowhere else; 0: there is none.
    :param certificates_dir: folder of the certificate for Vertex AI's names, which the service makes;
        default: ``tls`` beside the database.
    :param engine: ``docker``: containers run on the engine's machine; ``swarm``: on those of the swarm that
        it manages.
    :param docker_host: engine to use; empty: ``DOCKER_HOST`` or the default socket, as with docker.
    :param agent_image: with a swarm: the image of the agent of each machine, which reads the metrics of jobs
        there: the service's own image; empty: there are no agents, and tuning jobs are refused.
    :param agent_url: this service as every machine reaches it: ``http://HOST:PORT`` or ``https://...``.
    :param agent_authority: PEM file of the certificates by which agents verify an ``https`` address; default:
        the public ones.
    :param agent_folder: absolute path of a folder that every machine has, for the metrics of its containers.
    :param agent_docker_socket: absolute path of the engine's socket on every machine: by it, the agent knows
        which containers ran out of memory, and what they use; empty: it has no way to the engine.
    :param agent_metadata_port: where agents with that socket serve the metadata endpoint of jobs. Not
        ``metadata_port``: another service may have that one on the first machine. 0: nowhere.
    :param container_env: variables that every container gets, e.g. ``STORAGE_EMULATOR_HOST``.
    :param egress: what containers of jobs reach on the network: ``open``, ``internet`` or ``none``.
    :param egress_allow: ``HOST:PORT`` that they reach in every case, beside the metadata endpoint and the
        URLs in ``container_env``.
    :param runtime_images: the image of each runtime version, for jobs of packages.
    :param image_aliases: names of images, or their beginnings with ``*``, and what runs in their place.
    :param overcommit: the factor by which the host's cores and memory may be promised to replicas that run
        side by side. Jobs that do not fit are QUEUED. A machine type is the most that a replica may use.
    :param placement: how the replicas of a job are put on several machines: ``spread`` or ``pack``.
    :param max_replicas: replicas of all jobs that may run side by side; 0: as many as cores and memory allow.
    :param max_networks: jobs that may have a network each at the same time; 0: as the engine has addresses.
    :param accelerators: ``require``: a job that asks for more GPUs than the host has is refused; ``ignore``:
        it runs without them, and its log says so.
    :param gpus: GPUs of the engine's host; default: detected, if the engine reports them.
    :param cpu_limit: cores of the host that one container may have at most; 0: all of them.
    :param memory_limit_bytes: memory of the host that one container may have at most; 0: all but a reserve.
    :param stop_grace_seconds: time between SIGTERM and SIGKILL when a replica is stopped.
    :param pull_retry_seconds: how long to retry a registry that does not answer, or an engine that refuses
        for now, before the job fails.
    :param stranger_grace_seconds: how long containers are kept whose job is not in the database, e.g. because
        an older copy of it was restored; the service's log names them.
    :param pull_silence_seconds: how long a pull may make no progress before it is given up and retried.
    :param pull_deadline_seconds: how long a whole pull may take before that.
    :param runtime: the container runtime of all jobs, by the engine's name for it, such as ``runsc``; or a
        mapping of job types (``gpu``, ``package``, ``container``) to runtimes; empty: the engine's default.
    :param pids_limit: processes and threads a container may have.
    :param disk_limit_bytes: bytes that a container's root, and the objects below a job directory, may have; a
        job with more fails. 0: no limit.
    :param disk_limit_files: the same of files and folders, and of objects.
    :param metrics_dir: folder of the files in which trials report their metrics, on the engine's machine and
        under the same path there; default: beside the database.
    :param secrets_dir: folder of the secrets that jobs may name; default: beside the database.
    :param storage_endpoint: object store with the summary files of trials, and with packages:
        ``https://storage.googleapis.com``, with the machine's credentials, or the URL of an emulator as this
        service reaches it; empty: summaries are not read, and nothing is known of packages.
    :param project_buckets: projects, and the buckets beside their own that their jobs may have read.
    :param fault_injection: let administrators inject faults (docs/fault-injection.md); for tests only.
    :param log_lines_per_second: lines of one replica that are kept, on average over ten seconds.
    :param log_bytes_per_second: the same in bytes.
    :param log_tail_lines: lines at the end of a flood that are kept beyond these limits.
    :param log_job_bytes: bytes of logs kept for all replicas and trials of one job; beyond that only each
        log's end is.
    :param keep_jobs_days: days for which a job is kept after its end; 0: for ever.
    :param keep_log_days: days for which log entries are kept; 0: as long as their job.
    :param keep_log_bytes: characters of all log entries together, beyond which the oldest go; 0: no limit.
    :param keep_series_days: days for which a job's measurements and usage are kept after its end; 0: as long
        as the job.
    :param keep_image_bytes: bytes of images on the engine that this service has pulled, beyond which the
        least recently used are removed; 0: no limit. Images of others are never removed.
    :param live_seconds: age of the loop's last good iteration from which ``/health/live`` reports it dead.
    :param disk_floor_bytes: free bytes on the disks of the database, the metrics and the engine below which
        no job is admitted; on a small disk 5 % of it; 0: none.
    :param disk_log_floor_bytes: free bytes on the disk of the database below which no log is collected; on a
        small disk 1.25 % of it; 0: none.
    """

    model_config = SettingsConfigDict(env_prefix="TRAINING_", extra="ignore")

    host: str = "127.0.0.1"
    port: int = Field(default=8470, ge=0, le=65535)
    grpc_port: int = Field(default=0, ge=0, le=65535)
    grpc_certificate: str = ""
    grpc_key: str = ""
    grpc_plaintext: bool = False
    allowed_hosts: list[str] = []
    database_url: str = f"sqlite:///{Path('.local/training/jobs.db').absolute()}"
    api_statement_seconds: float = Field(default=15.0, gt=0)
    lease_seconds: float = Field(default=10.0, ge=3)
    require_auth: bool = False
    tokens_file: Path | None = None
    key_dir: Path | None = None
    registry: str = ""
    metadata_host: str = ""
    metadata_port: int = Field(default=8471, ge=1, le=65535)
    vertex_proxy_port: int = Field(default=0, ge=0, le=65535)
    certificates_dir: Path | None = None
    engine: EngineKind = EngineKind.DOCKER
    docker_host: str = ""
    agent_image: str = ""
    agent_url: str = ""
    agent_authority: Path | None = None
    agent_docker_socket: str = Field(default="/var/run/docker.sock", pattern="^(/|$)")
    agent_metadata_port: int = Field(default=8475, ge=0, le=65535)
    agent_folder: str = Field(default="/var/lib/container-training", pattern="^/")
    container_env: dict[str, str] = {}
    egress: EgressMode = EgressMode.OPEN
    egress_allow: list[Annotated[Endpoint, BeforeValidator(Endpoint.parse)]] = []
    runtime_images: dict[str, RuntimeImage] = {}
    image_aliases: ImageAliases = {}
    overcommit: float = Field(default=4.0, ge=1)
    placement: Placement = Placement.SPREAD
    max_replicas: int = Field(default=0, ge=0)
    max_networks: int = Field(default=0, ge=0)
    accelerators: Accelerators = Accelerators.REQUIRE
    gpus: int | None = Field(default=None, ge=0)
    cpu_limit: float = Field(default=0, ge=0)
    memory_limit_bytes: int = Field(default=0, ge=0)
    stop_grace_seconds: float = Field(default=10.0, ge=0)
    pull_retry_seconds: float = Field(default=120.0, ge=0)
    stranger_grace_seconds: float = Field(default=600.0, ge=0)
    pull_silence_seconds: float = Field(default=SILENT_SECONDS, gt=0)
    pull_deadline_seconds: float = Field(default=DEADLINE_SECONDS, gt=0)
    runtime: str | dict[JobType, str] = ""
    pids_limit: int = Field(default=PIDS_LIMIT, ge=16)
    disk_limit_bytes: int = Field(default=LIMIT.bytes, ge=0)
    disk_limit_files: int = Field(default=LIMIT.files or 0, ge=0)
    metrics_dir: Path | None = None
    secrets_dir: Path | None = None
    storage_endpoint: str = ""
    project_buckets: dict[str, list[str]] = {}
    fault_injection: bool = False
    log_lines_per_second: int = Field(default=2500, ge=1)
    log_bytes_per_second: int = Field(default=1_000_000, ge=1)
    log_tail_lines: int = Field(default=500, ge=1)
    log_job_bytes: int = Field(default=500_000_000, ge=1)
    log_format: LogFormat = LogFormat.CONSOLE
    keep_jobs_days: float = Field(default=90, ge=0)
    keep_log_days: float = Field(default=30, ge=0)
    keep_log_bytes: int = Field(default=0, ge=0)
    keep_series_days: float = Field(default=30, ge=0)
    keep_image_bytes: int = Field(default=0, ge=0)
    live_seconds: float = Field(default=300.0, gt=0)
    disk_floor_bytes: int = Field(default=Floors().admission_bytes, ge=0)
    disk_log_floor_bytes: int = Field(default=Floors().log_bytes, ge=0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        has_filter = bool(self.agent_image and self.agent_docker_socket)
        if self.engine is EngineKind.SWARM and self.egress is not EgressMode.OPEN and not has_filter:
            raise ValueError(
                f"TRAINING_EGRESS must be open on a swarm without agents that have the engine's socket, got {self.egress}: "
                "agents filter what containers send. Set TRAINING_AGENT_IMAGE, TRAINING_AGENT_URL and "
                "TRAINING_AGENT_DOCKER_SOCKET (docs/more-machines.md)"
            )
        if bool(self.agent_image) != bool(self.agent_url):
            raise ValueError(
                "TRAINING_AGENT_IMAGE and TRAINING_AGENT_URL must be set together, got "
                f"{self.agent_image!r} and {self.agent_url!r}; set both, or none for no agents"
            )
        if self.agent_url and not _endpoint_of(self.agent_url):
            raise ValueError(
                f"TRAINING_AGENT_URL must be http://HOST:PORT or https://HOST:PORT, got {self.agent_url!r}"
            )
        if self.agent_authority and urlsplit(self.agent_url).scheme != "https":
            raise ValueError(
                f"TRAINING_AGENT_AUTHORITY needs a TRAINING_AGENT_URL with https, got {self.agent_url!r}; unset it"
            )
        if bool(self.grpc_certificate) != bool(self.grpc_key):
            raise ValueError(
                "TRAINING_GRPC_CERTIFICATE and TRAINING_GRPC_KEY must be set together, got "
                f"{self.grpc_certificate!r} and {self.grpc_key!r}; set both, or none for plaintext on loopback"
            )
        host = f"[{self.host}]" if ":" in self.host else self.host
        if self.grpc_port and not (self.grpc_key or self.grpc_plaintext or is_loopback(host)):
            raise ValueError(
                f"gRPC must have TRAINING_GRPC_CERTIFICATE and TRAINING_GRPC_KEY on {self.host!r}, which is not "
                "loopback: tokens would pass the network in plaintext. TRAINING_GRPC_PLAINTEXT=true allows it"
            )
        if self.grpc_port and self.grpc_port == self.port:
            raise ValueError(f"TRAINING_GRPC_PORT and TRAINING_PORT must differ, got {self.port} for both")
        return self

    @property
    def reach(self) -> Egress:
        """What containers of jobs reach on the network."""
        metadata = [Endpoint(self.metadata_host, self.metadata_port)] if self.metadata_host else []
        if self.engine is EngineKind.SWARM and self.agent_metadata_port:
            metadata = [Endpoint(MACHINE_NAME, self.agent_metadata_port)]
        of_urls = map(_endpoint_of, self.container_env.values())
        return Egress(self.egress, (*metadata, *filter(None, of_urls), *self.egress_allow))

    @property
    def metrics_folder(self) -> Path:
        """The folder in which trials report their metrics; absolute, as the engine requires."""
        return (self.metrics_dir or (self.key_folder or Path(".local/training")) / "metrics").absolute()

    @property
    def agent_host(self) -> str:
        """The name under which agents ask for this service; empty: there are none."""
        return urlsplit(self.agent_url).hostname or ""

    @property
    def secrets_folder(self) -> Path:
        """The folder of the secrets that jobs may name."""
        return (self.secrets_dir or (self.key_folder or Path(".local/training")) / "secrets").absolute()

    @property
    def certificates_folder(self) -> Path:
        """The folder of the certificate for Vertex AI's names."""
        return (self.certificates_dir or (self.key_folder or Path(".local/training")) / "tls").absolute()

    @property
    def volumes(self) -> dict[str, Path]:
        """The folders that the service, and an engine on its machine, write to: they need space."""
        folder = self.key_folder
        return {
            **({DATABASE: folder} if folder else {}),
            "metrics": self.metrics_folder,
            "engine": Path("/var/lib/docker"),
        }

    @property
    def retention(self) -> Retention:
        """How long ended things are kept."""
        return Retention(
            jobs=timedelta(days=self.keep_jobs_days),
            logs=timedelta(days=self.keep_log_days),
            log_bytes=self.keep_log_bytes,
            series=timedelta(days=self.keep_series_days),
            image_bytes=self.keep_image_bytes,
        )

    @property
    def disk_floors(self) -> Floors:
        """The free space below which the service does less."""
        return Floors(admission_bytes=self.disk_floor_bytes, log_bytes=self.disk_log_floor_bytes)

    @property
    def disk_limit(self) -> DiskUse:
        """What a container's root, or a job directory, may have."""
        return DiskUse(bytes=self.disk_limit_bytes, files=self.disk_limit_files)

    @property
    def key_folder(self) -> Path | None:
        """Folder of the signing key; ``None``: database and key are in memory."""
        if self.key_dir is not None:
            return self.key_dir
        url = sa.make_url(self.database_url)
        if url.get_backend_name() != "sqlite":
            return Path(".local/training").absolute()
        return Path(url.database).parent if url.database and url.database != ":memory:" else None


def _endpoint_of(value: str) -> Endpoint | None:
    """Return where a URL leads to; ``None``: the value is no URL."""
    try:
        url = urlsplit(value)
        port = url.port or _DEFAULT_PORTS.get(url.scheme)
        return Endpoint.parse(f"[{url.hostname}]:{port}") if url.scheme and url.hostname and port else None
    except ValueError:
        return None
