"""The end of a wait for a job, as a task tells Airflow of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, AirflowTaskTimeout

from container_training.work.waiting.job_watch import Outcome, WaitEvent, raise_unless_well
from training_api.errors import CostLimitReached


@dataclass(frozen=True, slots=True)
class WaitLimit:
    """
    How long one try of a task waits.

    :param is_of_try: it is ``execution_timeout``, which leaves the task to its retries.
    """

    duration: timedelta
    is_of_try: bool

    def error(self, text: str) -> AirflowTaskTimeout | AirflowSensorTimeout:
        """Return the error of a wait that has reached it."""
        return AirflowTaskTimeout(text) if self.is_of_try else AirflowSensorTimeout(text)


def state_at_end(event: WaitEvent, timed_out: Callable[[], BaseException]) -> str | None:
    """
    Return the job's state, or raise what ``event`` stands for.

    :param timed_out: makes the error of a wait that came to its limit.
    """
    if event["outcome"] == Outcome.TIMED_OUT:
        raise timed_out()
    if event["outcome"] == Outcome.REFUSED:
        name = event.get("error", "ServiceError")
        raise AirflowFailException(
            f"{name}: {event['message']}; job {event['job_id']!r} cannot be waited for"
        )
    if event["outcome"] == Outcome.COST_LIMIT:
        raise CostLimitReached(event["message"])
    raise_unless_well(event["job_id"], event["state"], event["message"])
    return event["state"]
