"""How the preflight and the local test run word the end of a container. Pure."""

from __future__ import annotations

from training_api.causes import Cause
from training_api.job.exit_causes import exit_cause, exit_meaning


def describe_end(
    exit_code: int, *, out_of_memory: bool, memory_bytes: int | None, ran_seconds: float | None = None
) -> str:
    """
    Return how a container ended, as the end of a sentence that begins with its name.

    :param memory_bytes: its limit; ``None``: no limit.
    :param ran_seconds: ``None``: not told.
    """
    after = "" if ran_seconds is None else f" after {ran_seconds:.1f} s"
    cause = exit_cause(exit_code, out_of_memory=out_of_memory, uses_packages=False)
    if cause is Cause.OUT_OF_MEMORY:
        limit = f", limit {memory_bytes / 2**20:.0f} MiB" if memory_bytes else ""
        return f"ran out of memory{after} (exit code {exit_code}{limit})"
    meaning = exit_meaning(cause, exit_code)
    return f"exited with {exit_code}{after}{f' ({meaning})' if meaning else ''}"
