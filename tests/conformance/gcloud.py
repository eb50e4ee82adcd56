"""The gcloud that is installed on this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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


@contextmanager
def following_gcloud(
    *arguments: str | Path, environment: Mapping[str, str], config: Path
) -> Iterator[Iterator[str]]:
    """
    Run ``gcloud`` until the block ends; yield the lines that it prints, each when it comes.

    The arguments are those of ``run_gcloud``.
    """
    with subprocess.Popen(
        ["gcloud", *map(str, arguments)],
        # A user sees each line at once, on a terminal.
        env=os.environ | environment | {"CLOUDSDK_CONFIG": str(config), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield iter(process.stdout)
        finally:
            process.terminate()
