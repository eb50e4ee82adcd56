"""A registry of a test's own: the stack's program, with the settings that the test wants."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker

from local_stack.parts.part import answers_ok
from local_stack.parts.registry import find_registry_program
from local_stack.stack import LocalStack
from tests.support.ports import reserve_port
from tests.support.waiting import wait_until

REPOSITORY = "demo-project/python"


def registry_program(stack: LocalStack) -> Path:
    """Return the program, which the stack has unpacked."""
    program = find_registry_program(stack.settings)
    assert program is not None, "a registry of a test's own needs the Debian package docker-registry"
    return program


def push(program: Path, folder: Path, engine: docker.APIClient, image: str) -> str:
    """Push ``image`` into the registry's ``folder``, and return its digest."""
    # Over loopback, which every engine trusts without TLS.
    host = f"127.0.0.1:{reserve_port()}"
    with run_registry(program, folder, host):
        engine.tag(image, f"{host}/{REPOSITORY}", "1")
        lines = list(engine.push(f"{host}/{REPOSITORY}", "1", stream=True, decode=True, auth_config={}))
        engine.remove_image(f"{host}/{REPOSITORY}:1")
    assert not [line for line in lines if "error" in line]
    (digest,) = [line["aux"]["Digest"] for line in lines if "aux" in line]
    return str(digest)


def registry_command(program: Path, folder: Path, address: str, **configuration: Any) -> list[str]:
    """
    Return the command of a registry that ends with what starts it.

    Its configuration is written.
    """
    file = folder / f"{address.replace(':', '-')}.json"  # which is YAML, too
    whole: Mapping[str, Any] = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": address},
        **configuration,
    }
    file.write_text(json.dumps(whole))
    return ["setpriv", "--pdeathsig", "KILL", str(program), "serve", str(file)]


@contextmanager
def run_registry(program: Path, folder: Path, address: str, **configuration: Any) -> Iterator[None]:
    """Serve the images in ``folder`` on ``address``, as long as the tests' process lives."""
    command = registry_command(program, folder, address, **configuration)
    with (
        (folder / f"{address.replace(':', '-')}.log").open("ab") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            # With authentication: 401, and the base of the server answers all the same.
            wait_until(
                lambda: answers_ok(f"http://{address}/"), f"a registry answers on {address} ({log.name})"
            )
            yield
        finally:
            process.terminate()
