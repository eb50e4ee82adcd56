"""A folder of docker's command line for one build: its logins, and nobody else's builders."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker.auth

from container_training.work.images.builders.docker_cli import INSTALL_BUILDX
from container_training.work.images.builders.remote_builder import RemoteBuilder
from container_training.work.images.registry import FindLogin, Login
from training_api.errors import BuildKitMissing

#: What an instance is called that only this folder has.
_INSTANCE = "container-training"
_SECONDS = 60
#: Docker's command line, told nothing else, asks the engine of these; a remote builder has none.
_OF_ENGINES = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "BUILDX_BUILDER")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildxHome:
    """
    What a build with buildx runs with.

    :param builder: the instance's name.
    :param environment: of the command line.
    :param metadata_file: where buildx writes what it made.
    """

    builder: str
    environment: Mapping[str, str]
    metadata_file: Path


@contextmanager
def buildx_home(
    program: str, builder: RemoteBuilder, hosts: Iterable[str], find_login: FindLogin
) -> Iterator[BuildxHome]:
    """
    Yield a folder that no other user can read, with the logins of ``hosts`` alone.

    It is removed afterwards. A builder with an address is an instance in this folder. One with a name is this
    user's own, whose folder of buildx is used, too.

    :raises BuildKitMissing: buildx knows no such builder, or cannot be run.
    """
    users = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    with tempfile.TemporaryDirectory(prefix="buildx-") as folder:  # 0700
        home = Path(folder)
        logins = {host: login for host in hosts if (login := find_login(host))}
        _write_private(home / "config.json", json.dumps(_configuration(logins, users)))
        environment = {**os.environ, "DOCKER_CONFIG": str(home), "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}
        if builder.name:
            if (users / "contexts").is_dir():
                (home / "contexts").symlink_to(users / "contexts")  # an instance may name one
            environment["BUILDX_CONFIG"] = os.environ.get("BUILDX_CONFIG") or str(users / "buildx")
        else:
            environment["BUILDX_CONFIG"] = str(home / "buildx")
            environment = {name: value for name, value in environment.items() if name not in _OF_ENGINES}
            _create_instance(program, builder, environment)
        yield BuildxHome(
            builder=builder.name or _INSTANCE,
            environment=environment,
            metadata_file=home / "metadata.json",
        )


def _configuration(logins: Mapping[str, Login], users: Path) -> dict[str, Any]:
    """Return ``config.json``: logins as ``docker login`` keeps them, and the user's plugins."""
    return {
        "auths": {_key(host): _auth(login) for host, login in logins.items()},
        "cliPluginsExtraDirs": [str(users / "cli-plugins")],
    }


def _key(host: str) -> str:
    return docker.auth.INDEX_URL if host == docker.auth.INDEX_NAME else host


def _auth(login: Login) -> dict[str, str]:
    given = {name.lower(): str(value) for name, value in login.items() if value}
    if token := given.get("identitytoken"):
        return {"identitytoken": token}
    pair = f"{given.get('username', '')}:{given.get('password', '')}"
    return {"auth": base64.b64encode(pair.encode()).decode()}


def _create_instance(program: str, builder: RemoteBuilder, environment: Mapping[str, str]) -> None:
    """Make the instance that stands for the address; nothing is asked of it yet."""
    options = [
        part
        for name, file in zip(("cacert", "cert", "key"), builder.certificates, strict=False)
        for part in ("--driver-opt", _quoted(f"{name}={file}"))
    ]
    command = [program, "buildx", "create", "--name", _INSTANCE, "--driver", "remote", *options, builder.url]
    try:
        run = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildKitMissing(
            f"buildx cannot use the builder at {builder}: {error}; check that `{program} buildx version` answers, or "
            f"{INSTALL_BUILDX}"
        ) from error
    if run.returncode:
        raise BuildKitMissing(f"buildx cannot use the builder at {builder}: {run.stdout.strip()}")


def _quoted(option: str) -> str:
    """Return ``option`` as one field of comma-separated values, as which buildx reads it. Pure."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([option])
    return line.getvalue()


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(text, encoding="utf-8")
