"""The scheduling of a job: its limits, and what is started again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from training_api.job.job_spec import DEFAULT_RUNNING
from training_api.job.restarts import RestartScope
from training_api.job.violations import Violations

_PATH = "jobSpec.scheduling"
#: discovery: Scheduling.maxWaitDuration "The default is 24 hours".
DEFAULT_WAIT = timedelta(hours=24)
_LONGEST = timedelta(days=3650)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobScheduling:
    """
    What a request's ``scheduling`` says.

    :param max_wait: limit on QUEUED and PENDING together; ``None``: none.
    """

    max_wait: timedelta | None
    max_running: timedelta
    restarts: RestartScope


def read_scheduling(rules: Violations, scheduling: Mapping[str, Any]) -> JobScheduling:
    """
    Return the scheduling of a job.

    What breaks a rule is recorded, and is as if it were not set.

    The strategies SPOT, ON_DEMAND and LOW_COST run as STANDARD: the machine is there, and costs nothing.
    """
    max_running = _duration(rules, "timeout", scheduling)
    if max_running is not None and max_running <= timedelta(0):
        rules.add(f"{_PATH}.timeout", f"must be more than 0s; got {scheduling['timeout']!r}")
    max_wait = _duration(rules, "maxWaitDuration", scheduling)
    if max_wait is not None and max_wait < timedelta(0):
        rules.add(f"{_PATH}.maxWaitDuration", f"must not be negative; got {scheduling['maxWaitDuration']!r}")
    return JobScheduling(
        max_wait=_limit(scheduling, max_wait),
        max_running=max_running or DEFAULT_RUNNING,
        restarts=_restarts(scheduling),
    )


def _limit(scheduling: Mapping[str, Any], max_wait: timedelta | None) -> timedelta | None:
    # Other strategies have none: "if the scheduling strategy is set to [FLEX_START]".
    if scheduling.get("strategy") != "FLEX_START":
        return None
    # "If set to 0, the job will wait indefinitely."
    return DEFAULT_WAIT if max_wait is None else max_wait or None


def _restarts(scheduling: Mapping[str, Any]) -> RestartScope:
    if scheduling.get("disableRetries"):  # "If true, overrides restart_job_on_worker_restart"
        return RestartScope.NONE
    return RestartScope.JOB if scheduling.get("restartJobOnWorkerRestart") else RestartScope.REPLICA


def _duration(rules: Violations, name: str, scheduling: Mapping[str, Any]) -> timedelta | None:
    if name not in scheduling:
        return None
    seconds = Decimal(scheduling[name].removesuffix("s"))
    if abs(seconds) > _LONGEST.total_seconds():
        rules.add(
            f"{_PATH}.{name}", f"must be at most {_LONGEST.total_seconds():.0f}s; got {scheduling[name]!r}"
        )
        return None
    return timedelta(microseconds=int(seconds * 10**6))
