"""Why a job or a trial does not succeed: the message, and what programs read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training_api.causes import Cause
from training_api.fleet.wire import JobReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """
    Why a job, or a trial, failed or was cancelled.

    :param message: for people: the API's ``errorMessage``.
    :param replica: the replica at fault, ``worker 1``; empty: none.
    :param exit_code: that replica's exit code.
    :param failed_trials: of a tuning job: how many trials have failed; all else is about the last one.
    """

    cause: Cause
    message: str
    replica: str = ""
    exit_code: int | None = None
    failed_trials: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return all but the message as a :class:`JobReason` in JSON, for ``from_json``."""
        return JobReason(
            cause=self.cause,
            replica=self.replica,
            exit_code=self.exit_code,
            failed_trials=self.failed_trials,
        ).to_wire()

    @classmethod
    def from_json(cls, message: str, stored: Mapping[str, Any]) -> Reason | None:
        """
        Return the reason that ``to_json`` wrote beside ``message``; ``None``: there is none.

        A message alone comes from a version that stored no causes.
        """
        if not message and not stored:
            return None
        return cls(
            cause=Cause(str(stored.get("cause", ""))),
            message=message,
            replica=stored.get("replica", ""),
            exit_code=stored.get("exitCode"),
            failed_trials=stored.get("failedTrials", 0),
        )
