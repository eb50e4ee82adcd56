"""What ``errorMessage`` says of a replica that failed, and a refusal of a quota. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from training_api.job.accelerators import Accelerator
from training_api.job.dialect import ReplicaFailure
from training_api.job.machines import ACCELERATOR_COUNTS

#: 128 + SIGKILL: the exit code of a process killed by signal 9, in a shell and in the engine.
_KILLED = 137
_SIGKILL = 9


def failure_text(failure: ReplicaFailure) -> str:
    """
    Return the sentence about one replica. Pure.

    Forms: [issues: rstudio/cloudml#130, tensorflow/models#4294]; out of memory [issue:
    tensorflow/models#5591]; lost: ours.
    """
    name = f"The replica {failure.replica}"
    if failure.is_removed:
        return f"{name} was lost: its container was removed from the engine."
    if failure.is_lost:
        return f"{name} was lost: the engine or its machine stopped while it ran."
    code = failure.exit_code
    if failure.out_of_memory:
        status = f"{_SIGKILL}(SIGKILL)" if code == _KILLED else str(code)
        return f"{name} ran out-of-memory and exited with a non-zero status of {status}."
    return f"{name} exited with a non-zero status of {code}."


def quota_text(project: str, wanted: Mapping[Accelerator, int], there: int) -> str:
    """
    Return the sentence about accelerators that are not there. Pure.

    Form: [issue: FIRST-Tech-Challenge/fmltc#318].
    """
    asked = ", ".join(f"{count} {_short(kind)}" for kind, count in wanted.items())
    maximum = ", ".join(f"{there} {_short(kind)}" for kind in sorted(ACCELERATOR_COUNTS))
    return (
        f"Quota failure for project {project}. The request for {asked} accelerators exceeds the allowed maximum "
        f"of {maximum}"
    )


def _short(kind: Accelerator) -> str:
    return kind.removeprefix("NVIDIA_TESLA_")
