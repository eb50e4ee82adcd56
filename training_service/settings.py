"""Settings of the training service: the environment (``TRAINING_*``), read in this one place."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import sqlalchemy as sa
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from container_engines.confinement import PIDS_LIMIT
from training_service.model.host_capacity import Accelerators
from training_service.model.runtimes import RuntimeImage


class LogFormat(StrEnum):
    """How the service writes its own log."""

    CONSOLE = "console"
    JSON = "json"


class EngineKind(StrEnum):
    """On what containers run."""

    DOCKER = "docker"  #: one machine: a Docker Engine
    SWARM = "swarm"  #: several: a Docker Swarm, through a manager of it


class ServiceSettings(BaseSettings):
    """
    All that can be set, with defaults for one machine.

    :param host: address to listen on; loopback unless told otherwise.
    :param allowed_hosts: more names under which the service may be asked; loopback's, and ``host``, always are.
    :param database_url: SQLAlchemy URL; SQLite (WAL) or PostgreSQL.
    :param require_auth: refuse callers without a bearer token, and what the IAM policies do not let them do.
    :param tokens_file: bearer tokens and their principals (``access/tokens_file.py``).
    :param key_dir: folder of the key that signs the service's own tokens; default: beside the database.
    :param registry: ``HOST:PORT`` of the registry to which this service gives out tokens; empty: none.
    :param metadata_host: address of this machine that containers reach, where the metadata endpoint of jobs listens:
        the gateway of the engine's bridge; empty: there is no such endpoint.
    :param metadata_port: its port; running containers keep it, so that it must stay.
    :param engine: ``docker``: containers run on the engine's machine; ``swarm``: on those of the swarm that it manages.
    :param docker_host: engine to use; empty: ``DOCKER_HOST`` or the default socket, as the docker client does.
    :param container_env: variables that every container gets, e.g. ``STORAGE_EMULATOR_HOST``.
    :param runtime_images: the image of each runtime version, for jobs of packages.
    :param overcommit: how many times over the host's cores and memory may be promised to replicas that run side by
        side; jobs for which there is no room are QUEUED. A machine type is what a replica may use at most.
    :param max_replicas: replicas that may run side by side, of all jobs; 0: as many as cores and memory allow.
    :param accelerators: ``require``: a job that asks for more GPUs than the host has is refused; ``ignore``: it runs
        without them, and its log says so.
    :param gpus: GPUs of the engine's host; default: found out, as far as the engine tells.
    :param cpu_limit: cores of the host that one container may have at most; 0: all of them.
    :param memory_limit_bytes: memory of the host that one container may have at most; 0: all but a reserve.
    :param stop_grace_seconds: time between SIGTERM and SIGKILL when a replica is stopped.
    :param pull_retry_seconds: how long a registry that does not answer, and an engine that refuses for now, are asked again
        before the job fails.
    :param pids_limit: processes and threads a container may have.
    :param metrics_dir: folder of the files in which trials report their metrics, on the machine of the engine and under
        the same path there; default: beside the database.
    :param storage_endpoint: object store in which summary files of trials are read: ``https://storage.googleapis.com``, with
        the machine's own credentials, or the URL of an emulator as this service reaches it; empty: they are not read.
    :param fault_injection: let administrators have the service make mistakes (docs/fault-injection.md); for tests only.
    :param log_lines_per_second: lines of one replica that are kept, on average over ten seconds.
    :param log_bytes_per_second: the same in bytes.
    :param log_tail_lines: lines at the end of a flood that are kept beyond these limits.
    :param log_job_bytes: bytes that are kept of all replicas of one job, beyond which only the end of each is.
    """

    model_config = SettingsConfigDict(env_prefix="TRAINING_", extra="ignore")

    host: str = "127.0.0.1"
    port: int = Field(default=8470, ge=0, le=65535)
    allowed_hosts: list[str] = []
    database_url: str = f"sqlite:///{Path('.local/training/jobs.db').absolute()}"
    require_auth: bool = False
    tokens_file: Path | None = None
    key_dir: Path | None = None
    registry: str = ""
    metadata_host: str = ""
    metadata_port: int = Field(default=8471, ge=1, le=65535)
    engine: EngineKind = EngineKind.DOCKER
    docker_host: str = ""
    container_env: dict[str, str] = {}
    runtime_images: dict[str, RuntimeImage] = {}
    overcommit: float = Field(default=4.0, ge=1)
    max_replicas: int = Field(default=0, ge=0)
    accelerators: Accelerators = Accelerators.REQUIRE
    gpus: int | None = Field(default=None, ge=0)
    cpu_limit: float = Field(default=0, ge=0)
    memory_limit_bytes: int = Field(default=0, ge=0)
    stop_grace_seconds: float = Field(default=10.0, ge=0)
    pull_retry_seconds: float = Field(default=120.0, ge=0)
    pids_limit: int = Field(default=PIDS_LIMIT, ge=16)
    metrics_dir: Path | None = None
    storage_endpoint: str = ""
    fault_injection: bool = False
    log_lines_per_second: int = Field(default=2500, ge=1)
    log_bytes_per_second: int = Field(default=1_000_000, ge=1)
    log_tail_lines: int = Field(default=500, ge=1)
    log_job_bytes: int = Field(default=500_000_000, ge=1)
    log_format: LogFormat = LogFormat.CONSOLE

    @property
    def metrics_folder(self) -> Path:
        """Where trials report their metrics; absolute, as the engine wants it."""
        return (self.metrics_dir or (self.key_folder or Path(".local/training")) / "metrics").absolute()

    @property
    def volumes(self) -> dict[str, Path]:
        """What the service, and an engine on its machine, write to; for gauges of free space."""
        folder = self.key_folder
        return {**({"database": folder} if folder else {}), "engine": Path("/var/lib/docker")}

    @property
    def key_folder(self) -> Path | None:
        """Where the signing key lies; ``None`` for a service whose database is in memory: its key is, too."""
        if self.key_dir is not None:
            return self.key_dir
        url = sa.make_url(self.database_url)
        if url.get_backend_name() != "sqlite":
            return Path(".local/training").absolute()
        return Path(url.database).parent if url.database and url.database != ":memory:" else None
