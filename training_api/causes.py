"""
Why a job, a trial or a replica did not end well, for programs.

The message beside it is for people. The training service writes a cause where it knows one: in the class of
an error of the engine (``errors.py``), from the status of a replica (``job/exit_causes.py``), and where a
limit or a person ends a job. No code derives one from a message.
"""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """
    What kept a job, or a trial, from its end.

    The value is the word on the wire and the label of a metric.
    """

    OUT_OF_MEMORY = "OUT_OF_MEMORY"  #: a replica wanted more memory than its container may have
    PROGRAM_ERROR = "PROGRAM_ERROR"  #: the trainer ended with a status of its own
    COMMAND = "COMMAND"  #: the image has no such program, or it cannot be executed
    PACKAGE = "PACKAGE"  #: the job's Python package could not be fetched or installed
    INTERRUPTED = "INTERRUPTED"  #: ended by a signal again and again, but not seen to run out of memory
    REPLICA_LOST = (
        "REPLICA_LOST"  #: its container was removed from outside, or died with the engine, again and again
    )
    IMAGE = "IMAGE"  #: there is no such image
    ACCESS = "ACCESS"  #: the job may not pull its image
    REGISTRY = "REGISTRY"  #: the registry did not answer
    DISK = "DISK"  #: it wrote more than a job may, or hid what it wrote
    STORAGE = "STORAGE"  #: the engine's disk is full
    QUOTA = "QUOTA"  #: too few GPUs
    SECRET = "SECRET"  # noqa: S105  #: a secret that the job names is not there, or cannot be read
    ENGINE = "ENGINE"  #: the engine could not start a container
    METRIC = "METRIC"  #: a trial did not report the metric that the study judges it by
    WAITED_TOO_LONG = "WAITED_TOO_LONG"  #: scheduling.maxWaitTime
    RAN_TOO_LONG = "RAN_TOO_LONG"  #: scheduling.maxRunningTime
    CANCELLED = "CANCELLED"  #: on request
    STUDY_ENDED = "STUDY_ENDED"  #: a trial that ran while its job was ending
    UNREADABLE = "UNREADABLE"  #: the service cannot read the job as it is stored
    UNKNOWN = "UNKNOWN"  #: the service did not say: one without causes, or a job from before it wrote them

    @classmethod
    def _missing_(cls, value: object) -> Cause | None:
        """Read a cause that a newer service has added as ``UNKNOWN``."""
        return cls.UNKNOWN if isinstance(value, str) else None
