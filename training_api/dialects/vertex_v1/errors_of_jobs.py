"""The ``error`` of a job that did not succeed: its code, and its words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from training_api.causes import Cause

#: Of google.rpc.Code.
_CANCELLED, _INVALID_ARGUMENT, _NOT_FOUND = 1, 3, 5
_RESOURCE_EXHAUSTED, _FAILED_PRECONDITION, _INTERNAL = 8, 9, 13
#: The code of each cause: 1, 3 and 8 as captured (contract D); the others by their meaning [unverified].
CODES: Mapping[Cause, int] = {
    Cause.PROGRAM_ERROR: _INVALID_ARGUMENT,
    Cause.COMMAND: _INVALID_ARGUMENT,
    Cause.PACKAGE: _INVALID_ARGUMENT,
    Cause.METRIC: _INVALID_ARGUMENT,
    Cause.SECRET: _INVALID_ARGUMENT,
    Cause.OUT_OF_MEMORY: _RESOURCE_EXHAUSTED,
    Cause.QUOTA: _RESOURCE_EXHAUSTED,
    Cause.DISK: _RESOURCE_EXHAUSTED,
    Cause.STORAGE: _RESOURCE_EXHAUSTED,
    Cause.IMAGE: _NOT_FOUND,
    Cause.ACCESS: _FAILED_PRECONDITION,
    Cause.CANCELLED: _CANCELLED,
    Cause.STUDY_ENDED: _CANCELLED,
    # A limit cancels the job, as on the real service [issue: tensorflow/tfx#6223].
    Cause.RAN_TOO_LONG: _CANCELLED,
    Cause.WAITED_TOO_LONG: _CANCELLED,
}
#: What a container itself ended by: its log says more.
IN_THE_LOG = frozenset({Cause.PROGRAM_ERROR, Cause.COMMAND, Cause.PACKAGE, Cause.INTERRUPTED})


def job_error(cause: Cause, message: str, job_id: str, tail: str = "") -> dict[str, Any]:
    """
    Return the ``google.rpc.Status`` of a job that failed or was cancelled.

    :param tail: the end of what the replica wrote; shown where its log says more.

    The hint at the log is the real service's; it has a link to Google's console there, and here the filter by
    which ``entries:list`` finds the lines.
    """
    code = CODES.get(cause, _INTERNAL)
    if code == _CANCELLED:
        message = f"CANCELED: {message}"
    elif cause in IN_THE_LOG:
        log = f'resource.type="ml_job" AND resource.labels.job_id="{job_id}"'
        said = f" \n{tail}" if tail else ""
        message = (
            f"{message}{said}\n\nTo find out more about why your job exited please check the logs: {log}"
        )
    return {"code": code, "message": message}
