"""
From the wire's Job to a ``JobSpec`` that is known to be good.

``job_spec_from_wire`` reports every broken rule at once, by the camelCase path of the field, so that a caller
fixes a request in one go. The rules themselves: ``job_rules.py``, ``replicas.py`` and
``hyperparameter_rules.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from training_api.dialects.ml_v1.packages import Runtimes, packages_from_wire
from training_api.dialects.ml_v1.replicas import replicas_from_wire
from training_api.dialects.ml_v1.resources import Job, Scheduling, TrainingInput
from training_api.dialects.ml_v1.rules.hyperparameter_rules import check_hyperparameters
from training_api.dialects.ml_v1.rules.job_rules import (
    check_formats,
    check_identity,
    check_supported,
    limits_from_wire,
)
from training_api.dialects.ml_v1.search import study_from_wire
from training_api.errors import InvalidJobSpec
from training_api.job.cluster import ReplicaRole
from training_api.job.job_spec import JobSpec
from training_api.job.secret_refs import check_secrets, secret_refs
from training_api.job.violations import Violations

#: The name of this dialect: the API and its version.
NAME = "ml_v1"


def read_request(stored: Mapping[str, Any]) -> TrainingInput:
    """
    Return a ``trainingInput`` that was accepted once.

    Without fields that today's models do not know.
    """
    try:
        return TrainingInput.model_validate(stored, extra="ignore")
    except ValidationError as error:
        strange = {each["loc"][0] for each in error.errors()}
        known = {name: value for name, value in stored.items() if name not in strange}
        return TrainingInput.model_validate(known, extra="ignore")


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
        dialect=NAME,
        labels=dict(job.labels or {}),
        max_wait=limits.max_wait,
        max_running=limits.max_running,
        priority=limits.priority,
        study=study_from_wire(training.hyperparameters) if training.hyperparameters else None,
        output_dir=training.job_dir or "",
        use_chief=bool(training.use_chief_in_tf_config),
        service_account=training.service_account or "",
        region=training.region or "",
        packages=packages_from_wire(training),
    )
