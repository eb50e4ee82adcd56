"""
Runs the registry's image in the foreground, so that supervisor can watch it.

The way where ``docker-registry`` cannot be had from Debian. The container is named by its port; one that was
left behind by a killed process is removed first.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType

import docker
import docker.errors

CERTIFICATE = "/etc/registry-token-certificate.pem"
"""Where the container finds the certificate of those who give out tokens."""
TLS = {"certificate": "/etc/registry-certificate.pem", "key": "/etc/registry-key.pem"}
"""Where it finds its own, if it has one."""


def run(engine: str, image: str, host: str, port: int, data: str, config: Path) -> int:
    """
    Run the registry until it ends or this process is asked to end.

    :param host: the address of this machine on which it is reached.
    :param config: the registry's configuration; of it only whose tokens are wanted, and TLS, are read.

    :return: exit status of the container.
    """
    client = docker.DockerClient(base_url=engine)
    name = f"local-stack-registry-{port}"
    settings = json.loads(config.read_text("utf-8"))
    token, tls = settings["auth"]["token"], settings["http"].get("tls", {})
    with suppress(docker.errors.NotFound):
        client.containers.get(name).remove(force=True)
    container = client.containers.run(
        image,
        name=name,
        detach=True,
        ports={"5000/tcp": (host, port)},
        volumes={
            data: {"bind": "/var/lib/registry", "mode": "rw"},
            token["rootcertbundle"]: {"bind": CERTIFICATE, "mode": "ro"},
            **{path: {"bind": TLS[name], "mode": "ro"} for name, path in tls.items()},
        },
        environment={
            "REGISTRY_STORAGE_DELETE_ENABLED": "true",
            "REGISTRY_AUTH_TOKEN_REALM": token["realm"],
            "REGISTRY_AUTH_TOKEN_SERVICE": token["service"],
            "REGISTRY_AUTH_TOKEN_ISSUER": token["issuer"],
            "REGISTRY_AUTH_TOKEN_ROOTCERTBUNDLE": CERTIFICATE,
            **{f"REGISTRY_HTTP_TLS_{name.upper()}": TLS[name] for name in tls},
        },
    )

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    try:
        for chunk in container.logs(stream=True, follow=True):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
        status: int = container.wait()["StatusCode"]
        return status
    finally:
        with suppress(docker.errors.NotFound):
            container.remove(force=True)


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m local_stack.images.registry_container", description=__doc__
    )
    parser.add_argument("--engine", required=True, help="URL of the Docker Engine")
    parser.add_argument("--image", required=True)
    parser.add_argument("--host", default="127.0.0.1", help="address of the registry; default: %(default)s")
    parser.add_argument("--port", required=True, type=int, help="its port")
    parser.add_argument("--data", required=True, help="folder that keeps the images")
    parser.add_argument(
        "--config", required=True, type=Path, help="configuration that says whose tokens are wanted"
    )
    arguments = parser.parse_args()
    return run(
        arguments.engine, arguments.image, arguments.host, arguments.port, arguments.data, arguments.config
    )


if __name__ == "__main__":
    sys.exit(main())
