"""
From the wire's Job to a ``JobSpec`` that is known to be good.

``job_spec_from_wire`` reports every broken rule at once, by the camelCase path of the field, so that a caller
mends a request in one go. The rules themselves: ``job_rules.py``, ``replica_spec.py`` and
``hyperparameter_rules.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

from training_api.dialects.ml_v1.resources import Job, Scheduling, TrainingInput
from training_api.errors import InvalidJobSpec
from training_api.job.cluster import ReplicaRole
from training_api.job.python_package import Runtimes
from training_api.job.replica_spec import ReplicaSpec, replicas_from_wire
from training_api.job.rules.job_rules import (
    DEFAULT_RUNNING,
    check_formats,
    check_identity,
    check_supported,
    limits_from_wire,
)
from training_api.job.rules.violations import Violations
from training_api.job.secret_refs import SecretRef, check_secrets, secret_refs
from training_api.job.tuning.hyperparameter_rules import check_hyperparameters
from training_api.job.tuning.study_spec import StudySpec


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """
    A validated job: what was asked, in the project's own terms.

    :param replicas: at least the master, which comes first; none only in a stored job that cannot be read.
    :param max_wait: limit on QUEUED and PREPARING together; ``None``: none.
    :param max_running: limit on RUNNING.
    :param priority: 0 to 1000, higher first.
    :param study: what a tuning job searches for; ``None``: the job trains once.
    :param secrets: what each of its containers gets from the service's store.
    """

    project: str
    job_id: str
    replicas: tuple[ReplicaSpec, ...]
    training_input: TrainingInput
    labels: dict[str, str] = field(default_factory=dict)
    max_wait: timedelta | None = None
    max_running: timedelta = DEFAULT_RUNNING
    priority: int = 0
    study: StudySpec | None = None
    secrets: tuple[SecretRef, ...] = ()

    @property
    def master(self) -> ReplicaSpec:
        """The replica that decides how the job ends."""
        return self.replicas[0]

    @property
    def use_chief(self) -> bool:
        """Whether TF_CONFIG names the master ``chief``."""
        return bool(self.training_input.use_chief_in_tf_config)


def job_spec_from_wire(project: str, job: Job, runtimes: Runtimes | None = None) -> JobSpec:
    """
    Return the validated job of a create request.

    Pure. Output-only fields of ``job`` are ignored, as the real API does.

    :param runtimes: the runtime versions of the service; ``None``, on a client: any is taken.
    :raises InvalidJobSpec: with every rule that ``job`` breaks.
    """
    rules = Violations()
    spec = _read(rules, project, job, runtimes)
    secrets = secret_refs(job.labels or {})
    check_secrets(rules, secrets)
    if spec is None or rules.found:
        raise InvalidJobSpec(rules.found)
    return replace(spec, secrets=secrets)


def accepted_job_spec(project: str, job: Job) -> JobSpec:
    """
    Return the job of a request that was accepted before.

    Perhaps under other rules: a new rule does not reject it, and no label of then names a secret.

    Pure.

    :raises InvalidJobSpec: its image or its machine cannot be read at all.
    """
    rules = Violations()
    spec = _read(rules, project, job)
    if spec is None:
        raise InvalidJobSpec(rules.found)
    return spec


def _read(rules: Violations, project: str, job: Job, runtimes: Runtimes | None = None) -> JobSpec | None:
    """Return the job as far as it can be read, or ``None``; what it breaks is in ``rules``."""
    check_identity(rules, job)
    if job.prediction_input is not None:
        rules.add("predictionInput", "this service runs training jobs only; set trainingInput")
    training = job.training_input
    if training is None:
        if job.prediction_input is None:
            rules.add("trainingInput", "is required")
        return None
    check_supported(rules, training)
    check_formats(rules, training)
    replicas = replicas_from_wire(rules, training, runtimes)
    limits = limits_from_wire(rules, training.scheduling or Scheduling())
    if training.hyperparameters is not None:
        check_hyperparameters(rules, job, training.hyperparameters)
    if not replicas or replicas[0].replica.role is not ReplicaRole.MASTER:
        return None
    return JobSpec(
        project=project,
        job_id=job.job_id or "",
        replicas=replicas,
        training_input=training,
        labels=dict(job.labels or {}),
        max_wait=limits.max_wait,
        max_running=limits.max_running,
        priority=limits.priority,
        study=StudySpec.from_wire(training.hyperparameters) if training.hyperparameters else None,
    )
