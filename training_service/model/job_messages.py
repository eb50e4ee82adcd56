"""
The service's own lines in a job's log. Pure.

The texts are ours: no sample of the real ones was found. Replicas have the names of the job's dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.machines import GIB, Resources, is_scaled_down
from training_api.job.replica_spec import ReplicaSpec
from training_api.job.tuning.trial_spec import hyperparameter_args
from training_api.states import JobState
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord
from training_service.search.early_stopping import EarlyStoppingReport

#: From a replica to its name in the log of its job: ``Dialect.task_name``.
Name = Callable[[ReplicaId], str]


def state_message(job: JobRecord, to: JobState, reason: Reason | None) -> str:
    """Return the line about a job's new state."""
    why = reason.message if reason else ""
    if job.trial:
        return _trial_message(job, to, why)
    job_id = job.spec.job_id
    images = ", ".join(dict.fromkeys(str(replica.image) for replica in job.spec.replicas))
    texts = {
        JobState.PREPARING: f"Job {job_id} is being prepared: pulling {images}.",
        JobState.RUNNING: f"Job {job_id} is running.",
        JobState.SUCCEEDED: "Job completed successfully.",
        JobState.FAILED: f"Job failed: {why}",
        JobState.CANCELLING: f"Job {job_id} is being cancelled: {why}",
        JobState.CANCELLED: "Job cancelled.",
    }
    return texts[to]


def queued_message(job: JobRecord) -> str:
    """Return the first line of a job, or of a trial."""
    if job.trial:
        return f"Trial {job.trial_id} is queued: {_assignment(job)}."
    return f"Job {job.spec.job_id} is queued."


def _trial_message(job: JobRecord, to: JobState, why: str) -> str:
    texts = {
        JobState.PREPARING: "is being prepared.",
        JobState.RUNNING: f"is running: {_assignment(job)}.",
        JobState.SUCCEEDED: "completed successfully.",
        JobState.FAILED: f"failed: {why}",
        JobState.CANCELLING: f"is being cancelled: {why}",
        JobState.CANCELLED: "cancelled.",
    }
    return f"Trial {job.trial_id} {texts[to]}"


def early_stopping_payload(report: EarlyStoppingReport | None) -> dict[str, Any] | None:
    """Return the line about early stopping in a study, with the figures for programs."""
    return None if report is None else {"message": report.text, "earlyStopping": asdict(report)}


def _assignment(job: JobRecord) -> str:
    return " ".join(hyperparameter_args(job.trial.hyperparameters)) if job.trial else ""


def images_message(users: Sequence[ReplicaId], image: str, name: Name) -> str:
    """Return the line that names the image, by digest, that some replicas run."""
    more = f" and {len(users) - 1} more" if len(users) > 1 else ""
    return f"Image of {name(users[0])}{more} is {image}."


def scaled_down_messages(
    replicas: Sequence[ReplicaSpec], granted: Mapping[ReplicaId, Resources], name: Name
) -> Iterator[str]:
    """Yield a line for each role whose replicas get less than their machine type promises."""
    for names, spec in _by_role(replicas, name):
        got, machine = granted[spec.replica], spec.machine
        if is_scaled_down(machine, got):
            yield (
                f"{machine.name} has {machine.cpus} cores and {machine.memory_bytes / GIB:.1f} GiB; this machine gives "
                f"{names} {got.cpus:.3g} cores and {got.memory_bytes / GIB:.1f} GiB."
            )


def without_gpus_message(
    replicas: Sequence[ReplicaSpec], granted: Mapping[ReplicaId, Resources], name: Name
) -> Iterator[str]:
    """Yield a line for each role whose replicas run without the GPUs they ask for."""
    for names, spec in _by_role(replicas, name):
        if spec.gpus > granted[spec.replica].gpus:
            kind = spec.gpu.value if spec.gpu else "GPU"
            yield f"{names} asked for {spec.gpus} {kind}; this service ignores accelerators, it runs on CPUs."


def _by_role(replicas: Sequence[ReplicaSpec], name: Name) -> Iterator[tuple[str, ReplicaSpec]]:
    """Yield the names and the first replica of each role; the replicas of a role are alike."""
    for role in ReplicaRole:
        same = [spec for spec in replicas if spec.replica.role is role]
        if same:
            first, last = name(same[0].replica), name(same[-1].replica)
            yield (first if len(same) == 1 else f"each of {first} to {last}"), same[0]
