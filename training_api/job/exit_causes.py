"""What the status with which a replica ended says of the cause. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from training_api.causes import Cause
from training_api.job.restarts import EXIT_MEANINGS, RETRYABLE_EXIT_CODES

#: The statuses of what installs packages (training_service/launcher/run_package.py), by sysexits.h.
PACKAGE_EXIT_MEANINGS: Mapping[int, str] = {
    65: "a package cannot be built or installed, or the module is in none of them",
    66: "a package is not in the object store, or may not be read",
    69: "the object store did not answer",
    73: "a package cannot be written in the container, whose disk may be full",
}


def exit_cause(exit_code: int, *, out_of_memory: bool, uses_packages: bool) -> Cause:
    """
    Return why a replica ended with ``exit_code``, which is not 0.

    :param uses_packages: whether packages are installed before it runs.
    """
    if out_of_memory:
        return Cause.OUT_OF_MEMORY
    if exit_code in RETRYABLE_EXIT_CODES:
        return Cause.INTERRUPTED
    if uses_packages and exit_code in PACKAGE_EXIT_MEANINGS:
        return Cause.PACKAGE
    return Cause.COMMAND if exit_code in EXIT_MEANINGS else Cause.PROGRAM_ERROR


def exit_meaning(cause: Cause, exit_code: int | None) -> str:
    """Return what ``exit_code`` means under ``cause``; empty for the program's own status."""
    if exit_code is None:
        return ""
    meanings = PACKAGE_EXIT_MEANINGS if cause is Cause.PACKAGE else {**RETRYABLE_EXIT_CODES, **EXIT_MEANINGS}
    return meanings.get(exit_code, "")
