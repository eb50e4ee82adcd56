"""The gcloud of this machine, pointed at the stack of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from local_stack.environment import client_environment
from local_stack.stack import LocalStack

CALL_TIMEOUT_SECONDS = 120

#: Runs ``gcloud`` with arguments; ``cwd`` is where.
Gcloud = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def gcloud(stack: LocalStack, base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Gcloud:
    """The gcloud of this machine with the environment of ``make env``; in CI it must be there."""
    if shutil.which("gcloud") is None:
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say("gcloud is not on this machine")
    environment = os.environ | client_environment(stack.settings, base_image=base_image)
    environment["CLOUDSDK_CONFIG"] = str(tmp_path_factory.mktemp("gcloud"))

    def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["gcloud", *map(str, arguments)],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CALL_TIMEOUT_SECONDS,
            check=False,
        )
        print(done.args, done.returncode, done.stdout, done.stderr, sep="\n")
        return done

    return run
