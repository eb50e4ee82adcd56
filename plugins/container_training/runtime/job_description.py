"""What the tasks that are about one job have in common: the arguments that describe it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Unpack, cast

from container_training.hooks.image import full_image_name
from container_training.hooks.training import TrainingHook
from container_training.runtime.dag_folder import dag_folder
from container_training.runtime.task_arguments import OperatorArguments, TaskArguments, TypedTask
from container_training.work.submission.job_file_reader import load_job_file
from container_training.work.submission.job_request import (
    JobFields,
    JobFieldsOfImage,
    JobFieldsOfRoles,
    job_request,
)
from container_training.work.template_values import TaskOutput, require_known
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import InvalidImageRef

if TYPE_CHECKING:
    from airflow.sdk import Context


class JobDescription(JobFields, total=False):
    """
    The arguments that describe a job, for a mapping that several tasks share.

    ``JOB: JobDescription = {"image": ...}``, then ``SubmitTrainingJobOperator(task_id="submit", **JOB)``.
    """

    config_file: str | None
    job: Mapping[str, Any] | str | TaskOutput | None
    job_id: str | None
    training_conn_id: str


class JobArguments(JobDescription, OperatorArguments, total=False):
    """All arguments of ``JobDescriptionOperator``."""


class ComparedArguments(JobFieldsOfRoles, TaskArguments, total=False):
    """What ``compare_with_champion`` passes on: what its jobs share, and arguments of all tasks."""

    job: Mapping[str, Any] | str | TaskOutput | None
    config_file: str | None
    detached: bool | str


class PipelineArguments(JobFieldsOfImage, TaskArguments, total=False):
    """What ``training_pipeline`` passes on: fields of its job, and arguments of all tasks."""

    job_id: str | None
    detached: bool | str
    result_files: Sequence[str]
    vertex_options: Mapping[str, Any] | str


class StepArguments(PipelineArguments, total=False):
    """What ``training_step`` passes on: as a pipeline, and where the job is described."""

    job: Mapping[str, Any] | str | TaskOutput | None
    config_file: str | None
    data_uris: Sequence[str] | str


class JobDescriptionOperator(TypedTask):
    """
    A task whose arguments describe a job.

    A job is described by a job file, by ``job`` in the API's own form, by single arguments, or by all of
    these. ``job`` overrides the file, and an argument that is set overrides both, field by field, as gcloud's
    flags override its ``--config``. ``args`` (in gcloud: what follows ``--``) and ``labels`` replace those of
    the file as a whole. All arguments are templates; the contents of the file are not.

    :param config_file: path of a YAML or JSON file with any subset of the ``Job`` resource. A relative path
        starts at the folder of the DAG's file. (templated)
    :param job: ``Job`` resource as a mapping, or as JSON text. (templated)
    :param job_id: id of the first attempt; default: a pure function of DAG, task, run and map index.
        (templated)
    :param image: ``masterConfig.imageUri``, best by digest. A short name, like ``digits:1``, is one below the
        connection's ``image_prefix``. (templated)
    :param args: arguments of the image; text is split as a shell would split it. A list within it is inserted
        as its words, so that the output of another task fits in:
        ``args=[collect.output["best_trial_args"], "--epochs", "50"]``. (templated)
    :param command: replaces the image's entry point (``masterConfig.containerCommand``). (templated)
    :param job_dir: ``gs://`` folder for the results; the service passes it on as ``--job-dir``. ``{job_id}``
        in it is replaced by the job's id, so that every attempt has a folder of its own. (templated)
    :param default_job_dir: the same, for a job whose folder is given neither by ``job_dir`` nor by ``job``
        nor by the file. (templated)
    :param labels: labels of the job; those that begin with ``airflow-`` are set when it is submitted.
        (templated)
    :param region: region of the job; default ``us-central1``, unless ``job`` or the file names one.
        (templated)
    :param scale_tier: default ``CUSTOM`` if a machine type is given, else that of the file, ``job`` or the
        service. (templated)
    :param master_type: machine type of the master. (templated)
    :param master_config: what ``image`` and ``command`` do not say of the master, in the API's own form
        (``ReplicaConfig``), like ``{"accelerator_config": {"type": "NVIDIA_TESLA_T4", "count": 1}}``. It is
        merged member by member with that of the file and of ``job``. (templated)
    :param worker_type: machine type of each worker. (templated)
    :param worker_count: number of workers. (templated)
    :param worker_config: how workers differ from the master, like ``{"image_uri": ...}``; merged as
        ``master_config`` is. (templated)
    :param parameter_server_type: machine type of each parameter server. (templated)
    :param parameter_server_count: number of parameter servers. (templated)
    :param parameter_server_config: as ``worker_config``. (templated)
    :param evaluator_type: machine type of the evaluator. (templated)
    :param evaluator_count: number of evaluators. (templated)
    :param evaluator_config: as ``worker_config``. (templated)
    :param use_chief_in_tf_config: ``TF_CONFIG`` calls the master ``chief``, as TensorFlow 2 wants it.
        (templated)
    :param max_wait_time: limit of waiting for a machine, like ``3600s``. (templated)
    :param max_running_time: limit of running, like ``3600s``. (templated)
    :param priority: 0 to 1000, higher first. (templated)
    :param service_account: account that the trainer acts as (``trainingInput.serviceAccount``). (templated)
    :param network: ``trainingInput.network``. (templated)
    :param hyperparameters: makes it a tuning job: the search (``HyperparameterSpec``), in the API's own form.
        (templated)
    :param package_uris: packages to run instead of an image, as ``PackageTrainerOperator`` returns them.
        (templated)
    :param python_module: module of the packages to run, like ``trainer.task``. (templated)
    :param runtime_version: version of the image that runs the packages, like ``2.11``. (templated)
    :param python_version: a Python version that the runtime version has, like ``3.7``. (templated)
    :param trainer_secrets: secrets of the service's store, and the variable in which the trainer finds each:
        ``{"wandb-key": "WANDB_API_KEY"}``; ``""`` instead of a variable: the file ``/run/secrets/wandb-key``.
        Names only; a value here would stand in the task's rendered fields. (templated)
    :param training_conn_id: connection of the training service. (templated)
    """

    template_fields: Sequence[str] = (
        "config_file",
        "job",
        "job_id",
        *JobFields.__annotations__,
        "training_conn_id",
    )
    template_fields_renderers = dict.fromkeys(
        (
            "job",
            "labels",
            "master_config",
            "worker_config",
            "parameter_server_config",
            "evaluator_config",
            "hyperparameters",
            "args",
            "command",
            "package_uris",
            "trainer_secrets",
        ),
        "json",
    )

    def __init__(
        self,
        *,
        config_file: str | None = None,
        job: Mapping[str, Any] | str | TaskOutput | None = None,
        job_id: str | None = None,
        image: str | TaskOutput | None = None,
        args: Sequence[Any] | str | TaskOutput | None = None,
        command: Sequence[Any] | str | TaskOutput | None = None,
        job_dir: str | TaskOutput | None = None,
        default_job_dir: str | None = None,
        labels: Mapping[str, str] | TaskOutput | None = None,
        region: str | TaskOutput | None = None,
        scale_tier: str | TaskOutput | None = None,
        master_type: str | TaskOutput | None = None,
        master_config: Mapping[str, Any] | TaskOutput | None = None,
        worker_type: str | TaskOutput | None = None,
        worker_count: int | str | TaskOutput | None = None,
        worker_config: Mapping[str, Any] | TaskOutput | None = None,
        parameter_server_type: str | TaskOutput | None = None,
        parameter_server_count: int | str | TaskOutput | None = None,
        parameter_server_config: Mapping[str, Any] | TaskOutput | None = None,
        evaluator_type: str | TaskOutput | None = None,
        evaluator_count: int | str | TaskOutput | None = None,
        evaluator_config: Mapping[str, Any] | TaskOutput | None = None,
        use_chief_in_tf_config: bool | str | TaskOutput | None = None,
        max_wait_time: str | TaskOutput | None = None,
        max_running_time: str | TaskOutput | None = None,
        priority: int | str | TaskOutput | None = None,
        service_account: str | TaskOutput | None = None,
        network: str | TaskOutput | None = None,
        hyperparameters: Mapping[str, Any] | TaskOutput | None = None,
        package_uris: Sequence[str] | str | TaskOutput | None = None,
        python_module: str | TaskOutput | None = None,
        runtime_version: str | TaskOutput | None = None,
        python_version: str | TaskOutput | None = None,
        trainer_secrets: Mapping[str, str | None] | TaskOutput | None = None,
        training_conn_id: str = TrainingHook.default_conn_name,
        **kwargs: Unpack[OperatorArguments],
    ) -> None:
        require_job_fields(type(self).__name__, kwargs)
        super().__init__(**kwargs)
        self.config_file = config_file
        self.job: Any = job
        self.job_id = job_id
        self.image: Any = image
        self.args = args
        self.command = command
        self.job_dir = job_dir
        self.default_job_dir = default_job_dir
        self.labels = labels
        self.region = region
        self.scale_tier = scale_tier
        self.master_type = master_type
        self.master_config = master_config
        self.worker_type = worker_type
        self.worker_count = worker_count
        self.worker_config = worker_config
        self.parameter_server_type = parameter_server_type
        self.parameter_server_count = parameter_server_count
        self.parameter_server_config = parameter_server_config
        self.evaluator_type = evaluator_type
        self.evaluator_count = evaluator_count
        self.evaluator_config = evaluator_config
        self.use_chief_in_tf_config = use_chief_in_tf_config
        self.max_wait_time = max_wait_time
        self.max_running_time = max_running_time
        self.priority = priority
        self.service_account = service_account
        self.network = network
        self.hyperparameters = hyperparameters
        self.package_uris = package_uris
        self.python_module = python_module
        self.runtime_version = runtime_version
        self.python_version = python_version
        self.trainer_secrets = trainer_secrets
        self.training_conn_id = training_conn_id

    def _request(self, context: Context) -> Job:
        self.image = self._full_image()
        given = {name: getattr(self, name) for name in JobFields.__annotations__}
        return job_request(self.job, cast(JobFields, given), self._file(context))

    def _full_image(self) -> Any:
        """Return the image with its registry; as it is if there is none: a rule of jobs says so."""
        if not self.image:
            return self.image
        with suppress(InvalidImageRef):
            return full_image_name(self.image, self.training_conn_id)
        return self.image

    def _file(self, context: Context) -> Mapping[str, Any]:
        """Return what the job file holds; empty text, as of a template, names none."""
        if not self.config_file:
            return {}
        return load_job_file(dag_folder(context) / self.config_file)


def require_job_fields(
    owner: str, given: Mapping[str, Any], known: Sequence[str] = JobDescriptionOperator.template_fields
) -> None:
    """
    Refuse arguments that no task about a job has.

    :raises InvalidArgument: with the name that was meant, or all of them.
    """
    of_any_task = OperatorArguments.__annotations__
    ours = {name: value for name, value in given.items() if name not in of_any_task and name[0] != "_"}
    require_known(owner, ours, known)
