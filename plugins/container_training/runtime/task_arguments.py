"""Airflow's arguments of tasks, for type checkers and editors: what ``**kwargs`` may hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Required, TypeAlias, TypedDict

from airflow.sdk import BaseOperator

if TYPE_CHECKING:
    from airflow.sdk import DAG, Context, RetryPolicy, TaskGroup, WeightRule

    Callback: TypeAlias = Callable[[Context], None]


class _ArgumentsOfEveryTask(TypedDict, total=False):
    owner: str
    email: str | Sequence[str] | None
    email_on_retry: bool
    email_on_failure: bool
    retry_exponential_backoff: float
    max_retry_delay: timedelta | float | None
    retry_policy: RetryPolicy | None
    start_date: datetime | None
    end_date: datetime | None
    depends_on_past: bool
    ignore_first_depends_on_past: bool
    wait_for_past_depends_before_skipping: bool
    wait_for_downstream: bool
    priority_weight: int
    weight_rule: str | WeightRule
    queue: str
    pool: str | None
    pool_slots: int
    sla: timedelta | None
    execution_timeout: timedelta | None
    on_execute_callback: Callback | Collection[Callback] | None
    on_failure_callback: Callback | list[Callback] | None
    on_success_callback: Callback | Collection[Callback] | None
    on_retry_callback: Callback | list[Callback] | None
    on_skipped_callback: Callback | Collection[Callback] | None
    resources: dict[str, Any] | None
    run_as_user: str | None
    max_active_tis_per_dag: int | None
    max_active_tis_per_dagrun: int | None
    executor: str | None
    executor_config: dict[str, Any] | None


class _ArgumentsOfOneTask(TypedDict, total=False):
    task_id: Required[str]
    dag: DAG | None
    task_group: TaskGroup | None
    params: MutableMapping[str, Any] | None
    default_args: dict[str, Any] | None
    pre_execute: Callable[[Context], None] | None
    post_execute: Callable[[Context, Any], None] | None
    trigger_rule: str
    map_index_template: str | None
    do_xcom_push: bool
    multiple_outputs: bool
    inlets: Any | None
    outlets: Any | None
    doc: str | None
    doc_md: str | None
    doc_json: str | None
    doc_yaml: str | None
    doc_rst: str | None
    task_display_name: str | None
    logger_name: str | None
    allow_nested_operators: bool
    render_template_as_native_obj: bool | None


class TaskArguments(_ArgumentsOfEveryTask, total=False):
    """Arguments that task groups take, and give to every task."""

    retries: int | None
    retry_delay: timedelta | float


class OperatorArguments(TaskArguments, _ArgumentsOfOneTask, total=False):
    """All arguments of Airflow's ``BaseOperator``."""


class SensorArguments(_ArgumentsOfEveryTask, _ArgumentsOfOneTask, total=False):
    """Arguments of ``BaseSensorOperator`` that ``TrainingJobSensor`` does not name itself."""

    timeout: timedelta | float | None
    soft_fail: bool
    mode: str
    exponential_backoff: bool
    max_wait: timedelta | float | None
    silent_fail: bool
    never_fail: bool


class EngineArguments(OperatorArguments, total=False):
    """Arguments of ``EngineOperator``."""

    docker_conn_id: str | None
    docker_url: str | None


class BuildArguments(EngineArguments, total=False):
    """All arguments of ``BuildImageOperator``."""

    context_dir: Required[str]
    image: Required[str]
    dockerfile: str
    build_args: Mapping[str, str] | None
    labels: Mapping[str, str] | None
    network_mode: str | None
    builder: str
    secrets: Mapping[str, str] | None
    ssh: Mapping[str, str] | None
    training_conn_id: str


class TypedTask(BaseOperator):
    """A task whose output fits any argument for type checkers: Airflow puts its value there."""

    if TYPE_CHECKING:

        @property
        def output(self) -> Any: ...
