"""A ``docker`` with buildx that writes down how it was called, and pushes nothing."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PUSHED, CONFIGURATION = "sha256:" + "d" * 64, "sha256:" + "c" * 64
_PROGRAM = """#!{python}
import json, os, stat, sys
from pathlib import Path
arguments = sys.argv[1:]
if arguments == ["buildx", "version"]:
    print("github.com/docker/buildx 0.13.1")
    sys.exit()
home = Path(os.environ["DOCKER_CONFIG"])
call = {{
    "arguments": arguments,
    "environment": dict(os.environ),
    "mode": stat.S_IMODE(home.stat().st_mode),
    "configuration": json.loads((home / "config.json").read_text()),
    "links": {{path.name: os.readlink(path) for path in home.iterdir() if path.is_symlink()}},
    "secrets": [
        Path(option.partition("src=")[2]).read_text() for option in arguments if option.startswith("id=")
    ],
}}
with open({log!r}, "a") as log:
    log.write(json.dumps(call) + "\\n")
{then}
if "--metadata-file" in arguments:
    Path(arguments[arguments.index("--metadata-file") + 1]).write_text({metadata!r})
"""
_METADATA = {"containerimage.digest": PUSHED, "containerimage.config.digest": CONFIGURATION}


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerProgram:
    """The program, and the file with its calls."""

    log: Path

    def calls(self) -> list[dict[str, Any]]:
        """Return its calls, in order: arguments, environment, configuration, secrets."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


def put_on_path(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, then: str = "", metadata: str = json.dumps(_METADATA)
) -> DockerProgram:
    """
    Make the program the first one on PATH.

    :param then: lines of Python that it runs after it has written down a call.
    :param metadata: what it says that it has made.
    """
    folder.mkdir()
    program, log = folder / "docker", folder / "calls"
    program.write_text(_PROGRAM.format(python=sys.executable, log=str(log), then=then, metadata=metadata))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return DockerProgram(log=log)
