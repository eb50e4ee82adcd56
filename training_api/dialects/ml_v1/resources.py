"""
The resources of the API as pydantic models: what goes over the wire, and nothing else.

Names, nesting and enums are those of the discovery document ``ml.v1.json``; a test walks it and compares. The
rules between fields live in ``job_rules.py`` and its neighbours.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from training_api.states import JobState
from training_api.wire import Double, Int32, Int64, Timestamp, WireModel


class ScaleTier(StrEnum):
    """A named machine layout; CUSTOM reads the types and counts of the request."""

    BASIC = "BASIC"
    STANDARD_1 = "STANDARD_1"
    PREMIUM_1 = "PREMIUM_1"
    BASIC_GPU = "BASIC_GPU"
    BASIC_TPU = "BASIC_TPU"
    CUSTOM = "CUSTOM"


class AcceleratorType(StrEnum):
    """Accelerators that a request may name."""

    ACCELERATOR_TYPE_UNSPECIFIED = "ACCELERATOR_TYPE_UNSPECIFIED"
    NVIDIA_TESLA_K80 = "NVIDIA_TESLA_K80"
    NVIDIA_TESLA_P100 = "NVIDIA_TESLA_P100"
    NVIDIA_TESLA_V100 = "NVIDIA_TESLA_V100"
    NVIDIA_TESLA_P4 = "NVIDIA_TESLA_P4"
    NVIDIA_TESLA_T4 = "NVIDIA_TESLA_T4"
    NVIDIA_TESLA_A100 = "NVIDIA_TESLA_A100"
    TPU_V2 = "TPU_V2"
    TPU_V3 = "TPU_V3"
    TPU_V2_POD = "TPU_V2_POD"
    TPU_V3_POD = "TPU_V3_POD"
    TPU_V4_POD = "TPU_V4_POD"


class Goal(StrEnum):
    """Direction of a tuning job's metric."""

    GOAL_TYPE_UNSPECIFIED = "GOAL_TYPE_UNSPECIFIED"
    MAXIMIZE = "MAXIMIZE"
    MINIMIZE = "MINIMIZE"


class SearchAlgorithm(StrEnum):
    """Search of a tuning job; unspecified is the service's Bayesian default."""

    ALGORITHM_UNSPECIFIED = "ALGORITHM_UNSPECIFIED"
    GRID_SEARCH = "GRID_SEARCH"
    RANDOM_SEARCH = "RANDOM_SEARCH"


class ParameterType(StrEnum):
    """Type of a searched parameter."""

    PARAMETER_TYPE_UNSPECIFIED = "PARAMETER_TYPE_UNSPECIFIED"
    DOUBLE = "DOUBLE"
    INTEGER = "INTEGER"
    CATEGORICAL = "CATEGORICAL"
    DISCRETE = "DISCRETE"


class ScaleType(StrEnum):
    """How a parameter is mapped onto the unit interval."""

    NONE = "NONE"
    UNIT_LINEAR_SCALE = "UNIT_LINEAR_SCALE"
    UNIT_LOG_SCALE = "UNIT_LOG_SCALE"
    UNIT_REVERSE_LOG_SCALE = "UNIT_REVERSE_LOG_SCALE"


class AcceleratorConfig(WireModel):
    """``GoogleCloudMlV1__AcceleratorConfig``."""

    count: Int64 | None = None
    type: AcceleratorType | None = None


class DiskConfig(WireModel):
    """``GoogleCloudMlV1__DiskConfig``."""

    boot_disk_size_gb: Int32 | None = None
    boot_disk_type: str | None = None


class EncryptionConfig(WireModel):
    """``GoogleCloudMlV1__EncryptionConfig``."""

    kms_key_name: str | None = None


class ReplicaConfig(WireModel):
    """``GoogleCloudMlV1__ReplicaConfig``: what one role runs."""

    accelerator_config: AcceleratorConfig | None = None
    container_args: list[str] | None = None
    container_command: list[str] | None = None
    disk_config: DiskConfig | None = None
    image_uri: str | None = None
    tpu_tf_version: str | None = None


class Scheduling(WireModel):
    """
    ``GoogleCloudMlV1__Scheduling``.

    Durations are strings of seconds with an ``s``: ``3600s``.
    """

    max_running_time: str | None = None
    max_wait_time: str | None = None
    priority: Int32 | None = None


class ParameterSpec(WireModel):
    """``GoogleCloudMlV1__ParameterSpec``: one searched dimension."""

    categorical_values: list[str] | None = None
    discrete_values: list[Double] | None = None
    max_value: Double | None = None
    min_value: Double | None = None
    parameter_name: str | None = None
    scale_type: ScaleType | None = None
    type: ParameterType | None = None


class HyperparameterSpec(WireModel):
    """``GoogleCloudMlV1__HyperparameterSpec``: a tuning job's search."""

    algorithm: SearchAlgorithm | None = None
    enable_trial_early_stopping: bool | None = None
    goal: Goal | None = None
    hyperparameter_metric_tag: str | None = None
    max_failed_trials: Int32 | None = None
    max_parallel_trials: Int32 | None = None
    max_trials: Int32 | None = None
    params: list[ParameterSpec] | None = None
    resume_previous_job_id: str | None = None


class TrainingInput(WireModel):
    """``GoogleCloudMlV1__TrainingInput``: what was asked."""

    args: list[str] | None = None
    enable_web_access: bool | None = None
    encryption_config: EncryptionConfig | None = None
    evaluator_config: ReplicaConfig | None = None
    evaluator_count: Int64 | None = None
    evaluator_type: str | None = None
    hyperparameters: HyperparameterSpec | None = None
    job_dir: str | None = None
    master_config: ReplicaConfig | None = None
    master_type: str | None = None
    network: str | None = None
    package_uris: list[str] | None = None
    parameter_server_config: ReplicaConfig | None = None
    parameter_server_count: Int64 | None = None
    parameter_server_type: str | None = None
    python_module: str | None = None
    python_version: str | None = None
    region: str | None = None
    runtime_version: str | None = None
    scale_tier: ScaleTier | None = None
    scheduling: Scheduling | None = None
    service_account: str | None = None
    use_chief_in_tf_config: bool | None = None
    worker_config: ReplicaConfig | None = None
    worker_count: Int64 | None = None
    worker_type: str | None = None


class HyperparameterMetric(WireModel):
    """``GoogleCloudMlV1_HyperparameterOutput_HyperparameterMetric``: one measurement."""

    objective_value: Double | None = None
    training_step: Int64 | None = None


class BuiltInAlgorithmOutput(WireModel):
    """
    ``GoogleCloudMlV1__BuiltInAlgorithmOutput``; never set here.

    This service has no built-in algorithms.
    """

    framework: str | None = None
    model_path: str | None = None
    python_version: str | None = None
    runtime_version: str | None = None


class HyperparameterOutput(WireModel):
    """``GoogleCloudMlV1__HyperparameterOutput``: one trial's result."""

    all_metrics: list[HyperparameterMetric] | None = None
    built_in_algorithm_output: BuiltInAlgorithmOutput | None = None
    end_time: Timestamp | None = None
    final_metric: HyperparameterMetric | None = None
    hyperparameters: dict[str, str] | None = None
    is_trial_stopped_early: bool | None = None
    start_time: Timestamp | None = None
    state: JobState | None = None
    trial_id: str | None = None
    web_access_uris: dict[str, str] | None = None


class TrainingOutput(WireModel):
    """``GoogleCloudMlV1__TrainingOutput``: what came out."""

    built_in_algorithm_output: BuiltInAlgorithmOutput | None = None
    completed_trial_count: Int64 | None = None
    consumed_ml_units: Double | None = Field(default=None, alias="consumedMLUnits")
    hyperparameter_metric_tag: str | None = None
    is_built_in_algorithm_job: bool | None = None
    is_hyperparameter_tuning_job: bool | None = None
    trials: list[HyperparameterOutput] | None = None
    web_access_uris: dict[str, str] | None = None


class Job(WireModel):
    """
    ``GoogleCloudMlV1__Job``: the record with its state.

    ``predictionInput`` and ``predictionOutput`` are known names with opaque contents: the service refuses
    prediction jobs by name instead of calling the field unknown.
    """

    create_time: Timestamp | None = None
    end_time: Timestamp | None = None
    error_message: str | None = None
    etag: str | None = None
    job_id: str | None = None
    job_position: Int64 | None = None
    labels: dict[str, str] | None = None
    prediction_input: dict[str, Any] | None = None
    prediction_output: dict[str, Any] | None = None
    start_time: Timestamp | None = None
    state: JobState | None = None
    training_input: TrainingInput | None = None
    training_output: TrainingOutput | None = None


class ListJobsResponse(WireModel):
    """``GoogleCloudMlV1__ListJobsResponse``; both fields absent when nothing matches."""

    jobs: list[Job] | None = None
    next_page_token: str | None = None


class ProjectConfig(WireModel):
    """``GoogleCloudMlV1__Config``."""

    tpu_service_account: str | None = None


class GetConfigResponse(WireModel):
    """``GoogleCloudMlV1__GetConfigResponse``: the project's service agent."""

    config: ProjectConfig | None = None
    service_account: str | None = None
    service_account_project: Int64 | None = None
