"""What a preflight runs: the job with fewer replicas and another job folder. Without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from training_api.dialects.ml_v1.packages import job_dir_args
from training_api.dialects.ml_v1.resources import Job
from training_api.dialects.ml_v1.roles import OTHER_ROLES
from training_api.errors import InvalidJobSpec
from training_api.job.tuning.trial_spec import hyperparameter_args, sample_hyperparameters

if TYPE_CHECKING:
    from training_api.job.job_spec import JobSpec
    from training_api.job.replica_spec import ReplicaSpec

#: Two replicas check each other, which one cannot; more of the same check nothing new.
MAX_REPLICAS_PER_ROLE = 2


def preflight_job(job: Job, key_digest: str) -> Job:
    """
    Return ``job`` with at most two replicas per role, and with a preflight folder.

    Pure. Its job folder is then ``<its job folder>/preflight/<12 hex>``. A count that a scale tier implies
    stays; ``preflight_replicas`` drops the surplus.

    :param key_digest: hex digits of the task, the same in each of its attempts.
    """
    training = job.training_input
    if training is None:
        return job
    changes: dict[str, object] = {
        f"{role.name}_count": min(count, MAX_REPLICAS_PER_ROLE)
        for role in OTHER_ROLES
        if (count := role.count_of(training))
    }
    if training.job_dir:
        changes["job_dir"] = f"{training.job_dir.rstrip('/')}/preflight/{key_digest[:12]}"
    return job.model_copy(update={"training_input": training.model_copy(update=changes)})


def preflight_replicas(spec: JobSpec, args: Sequence[str] | None) -> list[ReplicaSpec]:
    """
    Return the replicas that a preflight starts, at most two per role, the master first.

    Pure. Those of a tuning job get values from its search space, as a trial would.

    :param args: replace the master's arguments, and those of every replica with the same ones; ``--job-dir``
        still follows. ``None`` or empty: keep the job's arguments.
    :raises InvalidJobSpec: the job runs packages, which the service installs.
    """
    if spec.packages:
        rule = "a preflight starts images; this job runs packages, which only the service's runtime images install"
        raise InvalidJobSpec.of("trainingInput.packageUris", rule)
    replicas = [item for item in spec.replicas if item.replica.index < MAX_REPLICAS_PER_ROLE]
    if args:
        own = (*args, *job_dir_args(spec.output_dir))
        replicas = [replace(item, args=own) if item.args == spec.master.args else item for item in replicas]
    tried = hyperparameter_args(sample_hyperparameters(spec.study)) if spec.study else ()
    return [replace(item, args=(*item.args, *tried)) for item in replicas]
