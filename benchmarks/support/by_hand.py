"""What a person types instead of running a DAG: commands of Docker's own command line."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable

from local_stack.settings import StackSettings


def time_by_hand(settings: StackSettings, commands: Iterable[list[str]]) -> float:
    """Return the seconds of the commands, one after the other, on the stack's engine."""
    # The classic builder, as the operators use: the CLI's default needs a plugin that not every machine has.
    environment = {
        **os.environ,
        "DOCKER_BUILDKIT": "0",
        "DOCKER_HOST": settings.engine_url,
        "DOCKER_CONFIG": str(settings.docker_config_dir),
    }
    started = time.perf_counter()
    for command in commands:
        subprocess.run(command, check=True, capture_output=True, env=environment)
    return time.perf_counter() - started
