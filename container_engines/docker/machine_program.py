"""
A program of the engine's machine, run there in the machine's own network.

The engine has no request for what such programs do, and this process is not always root, or on that machine.
So a container that lives for a moment has the right to change the machine's network, and runs the machine's
own program: the container's image is empty.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping, Sequence

from docker.types import Mount

from container_engines.docker.client import DockerConnection
from container_engines.docker.driver import DockerDriver
from container_engines.docker.errors import engine_errors
from container_engines.docker.log_files import LOG_MEGABYTES
from training_api.errors import EngineError

#: Has no programs: its folders are links into the machine's. The tag changes with its content.
_IMAGE, _TAG = "localhost/container-training-egress", "1"
_MACHINE = "/machine"
_FOLDERS = ("bin", "lib", "lib32", "lib64", "libx32", "nix", "sbin", "usr")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
_SHOWN_CHARACTERS = 500


def run_on_machine(
    connection: DockerConnection, command: Sequence[str], *, name: str, labels: Mapping[str, str]
) -> None:
    """
    Run a program; return once it has ended with 0.

    :param name: of the container; one of this name that a killed process left is removed.
    :param labels: say whose the container is, should a kill leave it behind.
    :raises EngineError: it ended otherwise, or there is no such program; says what it printed.
    """
    client = connection.client
    driver = DockerDriver(client, connection.kind)
    if driver.find_image(f"{_IMAGE}:{_TAG}") is None:
        with engine_errors(f"make the image {_IMAGE}"):
            client.import_image_from_data(_links(), repository=_IMAGE, tag=_TAG)
    driver.remove(name)
    try:
        with engine_errors(f"run {command[0]} on the engine's machine"):
            client.create_container(
                f"{_IMAGE}:{_TAG}",
                name=name,
                command=list(command),
                environment={"PATH": _PATH},
                labels=dict(labels),
                host_config=client.create_host_config(
                    network_mode="host",
                    userns_mode="host",
                    cap_drop=["ALL"],
                    cap_add=["NET_ADMIN"],
                    # SELinux lets no confined container read the machine's files.
                    security_opt=["no-new-privileges:true", "label=disable"],
                    read_only=True,
                    log_config=connection.kind.log_files(LOG_MEGABYTES),
                    mounts=[Mount(_MACHINE, "/", type="bind", read_only=True)],
                ),
            )
            client.start(name)
            status = client.wait(name)["StatusCode"]
        if status:
            said = " ".join(line.text for line in driver.read_logs(name, follow=False))
            raise EngineError(f"{command[0]} ended with {status}: {said[:_SHOWN_CHARACTERS]}")
    finally:
        driver.remove(name)


def _links() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for folder in _FOLDERS:
            link = tarfile.TarInfo(folder)
            link.type, link.linkname = tarfile.SYMTYPE, f"{_MACHINE.lstrip('/')}/{folder}"
            archive.addfile(link)
    return content.getvalue()
