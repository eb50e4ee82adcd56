"""
The states of a job, and the only legal ways between them.

A job is QUEUED until there is room for it, PREPARING while its image is pulled and its containers are
started, RUNNING from the moment all its replicas run, and ends as SUCCEEDED, FAILED or CANCELLED. A cancel,
by a person or by a limit, passes through CANCELLING while the containers are stopped::

    QUEUED -> PREPARING -> RUNNING -> SUCCEEDED
       |          |           |
       +----------+-----------+-----> FAILED
       |          |           |
       +----------+-----------+-----> CANCELLING -> CANCELLED

A job fails before it has left the queue only if it cannot be read as the service has stored it.

``docs/states.md`` draws the same table; a test compares the two.

Source of the names: the discovery document's ``GoogleCloudMlV1__Job.state``. The order QUEUED -> CANCELLING
is [unverified]: see docs/states.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from training_api.errors import IllegalTransition


class JobState(StrEnum):
    """State of a job; the value is the word on the wire."""

    QUEUED = "QUEUED"  #: waits for room on the machine
    PREPARING = "PREPARING"  #: its image is pulled, its containers are made
    RUNNING = "RUNNING"  #: all replicas run
    SUCCEEDED = "SUCCEEDED"  #: the master exited with 0
    FAILED = "FAILED"  #: ``errorMessage`` says why
    CANCELLING = "CANCELLING"  #: asked to end; containers are being stopped
    CANCELLED = "CANCELLED"  #: ended by a person or by a limit

    @property
    def is_terminal(self) -> bool:
        """Whether the job has ended for good."""
        return not LEGAL[self]


LEGAL: Mapping[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset({JobState.PREPARING, JobState.FAILED, JobState.CANCELLING}),
    JobState.PREPARING: frozenset({JobState.RUNNING, JobState.FAILED, JobState.CANCELLING}),
    JobState.RUNNING: frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLING}),
    JobState.CANCELLING: frozenset({JobState.CANCELLED}),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
}

#: The states from which nothing follows.
TERMINAL: frozenset[JobState] = frozenset(state for state, successors in LEGAL.items() if not successors)
#: All others.
LIVING: frozenset[JobState] = frozenset(JobState) - TERMINAL
#: Of jobs that run or will run.
ACTIVE: frozenset[JobState] = LIVING - {JobState.CANCELLING}


class ReplicaState(StrEnum):
    """State of one container of a job, as the engine reports it."""

    CREATED = "CREATED"  #: made, not started
    RUNNING = "RUNNING"
    EXITED = "EXITED"  #: ended; has an exit code


#: What may follow in the life of one container; a restart is a new container.
REPLICA_LEGAL: Mapping[ReplicaState, frozenset[ReplicaState]] = {
    ReplicaState.CREATED: frozenset({ReplicaState.RUNNING}),
    ReplicaState.RUNNING: frozenset({ReplicaState.EXITED}),
    ReplicaState.EXITED: frozenset(),
}


def advance(current: JobState, successor: JobState) -> JobState:
    """
    Return ``successor`` if it may follow ``current``.

    Pure; every writer of a job's state goes through here.

    :raises IllegalTransition: ``LEGAL`` does not have the step.
    """
    if successor not in LEGAL[current]:
        allowed = ", ".join(sorted(LEGAL[current])) or "nothing: the state is terminal"
        raise IllegalTransition(f"a job cannot go from {current} to {successor}; allowed: {allowed}")
    return successor
