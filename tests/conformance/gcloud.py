"""The gcloud that is installed on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.speed import scaled

CALL_TIMEOUT_SECONDS = 150

Result = subprocess.CompletedProcess[str]


def require_gcloud() -> None:
    """Skip the test where there is no gcloud; in CI it must be there."""
    if shutil.which("gcloud") is None:
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say("gcloud is not on this machine")


def run_gcloud(
    *arguments: str | Path, environment: Mapping[str, str], config: Path, cwd: Path | None = None
) -> Result:
    """
    Run ``gcloud`` and print what it said.

    :param environment: laid over this process's own.
    :param config: its folder; it locks it, so that calls side by side need one each.
    """
    done = subprocess.run(
        ["gcloud", *map(str, arguments)],
        cwd=cwd,
        env=os.environ | environment | {"CLOUDSDK_CONFIG": str(config)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=scaled(CALL_TIMEOUT_SECONDS),
        check=False,
    )
    print(done.args, done.returncode, done.stdout, done.stderr, sep="\n")
    return done
