"""
From a job in ml.v1's words to the request that creates it on Vertex AI. Pure.

What Vertex AI has no words for is refused, with the nearest choice: nothing is dropped silently. The id that
was chosen becomes ``displayName``, as Vertex AI gives each job an id of its own. Two things differ without
an error: TF_CONFIG says ``chief`` whatever ``useChiefInTfConfig`` is, and ``maxRunningTime`` limits each
trial of a search, where ml.v1 limits all of them together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training_api.dialects.ml_v1.resources import EncryptionConfig, Job, Scheduling, TrainingInput
from training_api.dialects.ml_v1.rules.job_rules import check_formats, check_identity, limits_from_wire
from training_api.errors import FieldViolation, InvalidJobSpec
from training_api.job.secret_refs import secret_refs
from training_api.job.violations import Violations
from training_api.vertex_jobs.address import CUSTOM_JOBS, TUNING_JOBS
from training_api.vertex_jobs.options import NO_OPTIONS, PATH, VertexOptions
from training_api.vertex_jobs.pools import write_pools
from training_api.vertex_jobs.study import write_study

_SCHEDULING = "trainingInput.scheduling"


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexRequest:
    """
    A request that creates a job.

    :param collection: ``customJobs`` or ``hyperparameterTuningJobs``.
    :param body: in camelCase, as the create method takes it.
    """

    collection: str
    body: Mapping[str, Any]


def vertex_request(job: Job, options: VertexOptions = NO_OPTIONS) -> VertexRequest:
    """
    Return the request that creates ``job`` on Vertex AI.

    The region is in the URL, and not here.

    :raises InvalidJobSpec: with every rule that the job breaks, and everything that Vertex AI does not have.
    """
    rules = Violations()
    check_identity(rules, job)
    _check_secrets(rules, job)
    if job.prediction_input is not None:
        rules.add("predictionInput", "only training jobs run on Vertex AI's training; set trainingInput")
    options.check(rules)
    training = job.training_input
    if training is None:
        rules.add("trainingInput", "is required")
        raise InvalidJobSpec(rules.found)
    check_formats(rules, training)
    job_spec = _job_spec(rules, training, options)
    search = training.hyperparameters
    study = write_study(rules, job, search, options) if search is not None else {}
    if search is None and options.conditional_parameters:
        rules.add(f"{PATH}.conditional_parameters", "can only be set with trainingInput.hyperparameters")
    if rules.found:
        raise InvalidJobSpec(rules.found)
    key = (training.encryption_config or EncryptionConfig()).kms_key_name
    body = {
        "displayName": job.job_id,
        **study,
        "trialJobSpec" if study else "jobSpec": job_spec,
        **({"labels": dict(job.labels)} if job.labels else {}),
        **({"encryptionSpec": {"kmsKeyName": key}} if key else {}),
    }
    return VertexRequest(collection=TUNING_JOBS if study else CUSTOM_JOBS, body=body)


def _check_secrets(rules: Violations, job: Job) -> None:
    for ref in secret_refs(job.labels or {}):
        rules.add(
            f"labels.{ref.label}",
            "Vertex AI has no store of secrets that labels name; leave it out, and have the trainer read Secret "
            "Manager with the rights of serviceAccount, or run the job on a connection of type container_training",
        )


def _job_spec(rules: Violations, training: TrainingInput, options: VertexOptions) -> dict[str, Any]:
    """Return the CustomJobSpec of the job, or of each of its trials."""
    network = training.network or options.network
    if training.network and options.network not in ("", training.network):
        rules.add(f"{PATH}.network", f"must be left out, or be trainingInput.network, {training.network!r}")
    elif options.network:
        found = Violations()
        check_formats(found, TrainingInput(network=options.network))
        rules.found += [
            FieldViolation(field=f"{PATH}.network", description=each.description) for each in found.found
        ]
    fields: dict[str, Any] = {
        "workerPoolSpecs": write_pools(rules, training, options),
        "scheduling": _scheduling(rules, training.scheduling or Scheduling(), options),
        "baseOutputDirectory": {"outputUriPrefix": training.job_dir} if training.job_dir else {},
        "serviceAccount": training.service_account,
        "network": network,
        "persistentResourceId": options.persistent_resource_id,
        "enableWebAccess": training.enable_web_access or options.enable_web_access,
    }
    return {name: value for name, value in fields.items() if value}


def _scheduling(rules: Violations, asked: Scheduling, options: VertexOptions) -> dict[str, Any]:
    limits_from_wire(rules, asked)
    if asked.priority:
        rules.add(
            f"{_SCHEDULING}.priority",
            f"Vertex AI's jobs have no priority; leave it out, and submit the important job first; got {asked.priority}",
        )
    if asked.max_wait_time and options.strategy != "FLEX_START":
        rules.add(
            f"{_SCHEDULING}.maxWaitTime",
            f"Vertex AI limits the wait of jobs of the strategy FLEX_START only; set {PATH} strategy to it, or leave "
            f"maxWaitTime out, and have the task's own timeout cancel the job; got {asked.max_wait_time!r}",
        )
    if asked.max_wait_time and options.max_wait_duration:
        rules.add(
            f"{PATH}.max_wait_duration",
            f"cannot be set together with {_SCHEDULING}.maxWaitTime; leave one out",
        )
    fields: dict[str, Any] = {
        "timeout": asked.max_running_time,
        "strategy": options.strategy,
        "maxWaitDuration": asked.max_wait_time or options.max_wait_duration,
        "disableRetries": options.disable_retries,
        "restartJobOnWorkerRestart": options.restart_job_on_worker_restart,
    }
    return {name: value for name, value in fields.items() if value}
