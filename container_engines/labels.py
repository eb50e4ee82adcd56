"""The labels by which a service finds what it made on an engine."""

from __future__ import annotations

from collections.abc import Mapping

from container_engines.base import ReplicaLaunch
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.restarts import Attempt

_PREFIX = "container-training"
SERVICE, JOB_UID = f"{_PREFIX}.service", f"{_PREFIX}.job-uid"
_JOB, _PROJECT = f"{_PREFIX}.job", f"{_PREFIX}.project"
_TRIAL = f"{_PREFIX}.trial"
_ROLE, _INDEX, _ATTEMPT = f"{_PREFIX}.role", f"{_PREFIX}.index", f"{_PREFIX}.attempt"


def job_labels(service_id: str, launch: ReplicaLaunch) -> dict[str, str]:
    """Return the labels of what all replicas of a job share."""
    trial = {_TRIAL: launch.trial_id} if launch.trial_id else {}
    return {
        SERVICE: service_id,
        JOB_UID: launch.job_uid,
        _PROJECT: launch.project,
        _JOB: launch.job_id,
        **trial,
    }


def replica_labels(service_id: str, launch: ReplicaLaunch) -> dict[str, str]:
    """Return the labels of one run of a replica."""
    return {
        **job_labels(service_id, launch),
        _ROLE: launch.replica.role.value,
        _INDEX: str(launch.replica.index),
        _ATTEMPT: str(launch.attempt),
    }


def is_of_job(labels: Mapping[str, str], service_id: str) -> bool:
    """Whether ``job_labels`` made these labels for a job of this service."""
    return labels.get(SERVICE) == service_id and JOB_UID in labels


def replica_of(labels: Mapping[str, str]) -> ReplicaId:
    """Return the replica that ``replica_labels`` named."""
    return ReplicaId(role=ReplicaRole(labels[_ROLE]), index=int(labels[_INDEX]))


def attempt_of(labels: Mapping[str, str]) -> Attempt:
    """Return the run that ``replica_labels`` named; containers of older versions are first runs."""
    return Attempt.parse(labels.get(_ATTEMPT, str(Attempt())))
