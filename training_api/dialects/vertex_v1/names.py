"""
Names of resources: ``projects/P/locations/L/customJobs/ID``. Pure.

Requests name a project by its id or its number; answers always have the number.
"""

from __future__ import annotations

from collections.abc import Mapping

from training_api.job.dialect import ResourceKind

#: What the names of resources have before the id.
COLLECTIONS: Mapping[ResourceKind, str] = {
    ResourceKind.JOB: "customJobs",
    ResourceKind.TUNING_JOB: "hyperparameterTuningJobs",
    ResourceKind.PIPELINE: "trainingPipelines",
}
LOCATION_PATTERN = r"^[a-z][a-z0-9-]{0,62}$"
_LARGEST = 2**63 - 1
#: 19 digits, as the ones that users saw (3958704668489547776), and each within 64 bits.
_SMALLEST = 10**18
_DIGITS = 19


def new_id(random: int) -> str:
    """Return the id that ``random``, any number that is not negative, stands for."""
    return str(_SMALLEST + random % (_LARGEST - _SMALLEST))


def trial_job_id(uid: str) -> str:
    """
    Return the id of the CustomJob that a trial is.

    :param uid: the trial's key, 12 hexadecimal digits.
    """
    return str(_SMALLEST + int(uid, 16))


def trial_uid(job_id: str) -> str:
    """Return the key of the trial that has this id; empty: no trial can have it."""
    number = (
        int(job_id) - _SMALLEST if job_id.isascii() and job_id.isdecimal() and len(job_id) == _DIGITS else -1
    )
    return f"{number:012x}" if 0 <= number < 2**48 else ""


def location_name(project: str | int, location: str) -> str:
    """Return the name of a location, which is the parent of its jobs."""
    return f"projects/{project}/locations/{location}"


def job_name(project: str | int, location: str, collection: str, job_id: str) -> str:
    """Return the name of a job. :param collection: ``customJobs``, for one."""
    return f"{location_name(project, location)}/{collection}/{job_id}"
