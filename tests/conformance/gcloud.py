"""The gcloud that is installed on this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.speed import scaled

CALL_TIMEOUT_SECONDS = 150

Result = subprocess.CompletedProcess[str]


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
