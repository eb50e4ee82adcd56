"""How an engine keeps a container's output."""

from __future__ import annotations

from docker.types import LogConfig

#: The size of each of the two files that the engine keeps of a container's output.
LOG_MEGABYTES = 256


def log_files(megabytes: int = LOG_MEGABYTES) -> LogConfig:
    """
    Return how the engine stores a container's output: in two files of ``megabytes`` each.

    In its binary format: at 10 MB/s its JSON files set followers back, lose whole files to them, and take
    half a minute to read again.
    """
    return LogConfig(type="local", config={"max-size": f"{megabytes}m", "max-file": "2", "compress": "false"})


def one_log_file(megabytes: int = LOG_MEGABYTES) -> LogConfig:
    """
    Return the same for Podman, which has one file: a full one is emptied.

    It is as large as Docker's two together. Podman knows neither ``local`` nor ``max-file``.
    """
    return LogConfig(type="k8s-file", config={"max-size": f"{2 * megabytes}m"})
