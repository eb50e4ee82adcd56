"""
The jobs that Google's training operators ask for, and what a person has to decide.

Without I/O. Sources: ``airflow.providers.google.cloud.operators.vertex_ai.custom_job`` (22.8) and
``operators.mlengine`` (10.26, the last version that has it); ``google.cloud.aiplatform.training_jobs`` for
what a training pipeline is made of.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

from container_training.work.migration.airflow_calls import (
    CONTAINER,
    CUSTOM_JOB,
    ML_ENGINE,
    PACKAGE,
    SCRIPT,
    DagFile,
    OperatorCall,
)
from container_training.work.migration.arguments import place_arguments, words
from container_training.work.migration.custom_job import NO_ACCELERATOR, read_custom_job
from container_training.work.migration.legacy_job import (
    Decision,
    LegacyJob,
    LegacyTask,
    VertexOption,
    about_job,
)
from container_training.work.migration.python_text import Code
from container_training.work.migration.python_values import code_or_value
from container_training.work.submission.job_attempt import JOB_ID_MARK
from training_api.dialects.ml_v1.roles import ROLES
from training_api.errors import InvalidCommand

#: A prebuilt training container of Vertex AI with TensorFlow, and its version.
_TENSORFLOW_RUNTIME = re.compile(r".*docker\.pkg\.dev/vertex-ai/training/tf-(?:cpu|gpu|tpu)\.(\d+)-(\d+)\b.*")
#: Arguments of MLEngineStartTrainingJobOperator -> fields of ``trainingInput``.
_ML_ENGINE_FIELDS = {
    "region": "region",
    "package_uris": "packageUris",
    "training_python_module": "pythonModule",
    "training_args": "args",
    "scale_tier": "scaleTier",
    "master_type": "masterType",
    "master_config": "masterConfig",
    "runtime_version": "runtimeVersion",
    "python_version": "pythonVersion",
    "job_dir": "jobDir",
    "service_account": "serviceAccount",
    "hyperparameters": "hyperparameters",
}
#: Arguments that say how the provider waits, or how it names what nobody reads here.
_WITHOUT_EFFECT = frozenset(
    {"deferrable", "poll_interval", "display_name", "job_id", "is_default_version", "sync"}
)
_CONNECTION = frozenset({"project_id", "gcp_conn_id", "impersonation_chain", "delegate_to"})
#: Arguments of every operator that are copied.
_OF_TASKS = frozenset(
    {
        "retries",
        "retry_delay",
        "execution_timeout",
        "queue",
        "pool",
        "trigger_rule",
        "owner",
        "depends_on_past",
    }
)
_SPLITS = ("_fraction_split", "_filter_split", "_split_column_name")
_TRUE = frozenset({True, "True", "true"})


def jobs_of_dag_file(found: DagFile) -> list[LegacyJob]:
    """Return the job of each call, in the order of the file. Pure."""
    return [_Reader(found, call).job() for call in found.calls]


class _Reader:
    """Reads one call: takes each argument out; what is left has no counterpart."""

    def __init__(self, found: DagFile, call: OperatorCall) -> None:
        self._file = found.file
        self._call = call
        self._left = dict(call.arguments)
        self._training: dict[str, Any] = {}
        self._labels: Any = None
        self._package_path: str | None = None
        self._decisions: list[Decision] = []
        self._options: list[VertexOption] = []

    def job(self) -> LegacyJob:
        task_id = self._take("task_id") or self._call.target or "training"
        of_task = self._of_task()
        self._labels = self._take("labels")
        name = self._take("job_id") or self._take("display_name") or task_id
        read: Mapping[str, Callable[[], None]] = {
            CONTAINER: self._container,
            PACKAGE: self._python_package,
            SCRIPT: self._script,
            CUSTOM_JOB: self._custom_job,
            ML_ENGINE: self._ml_engine,
        }
        read[self._call.operator]()
        package_path, staging = self._package_path, self._take("staging")
        wire: dict[str, Any] = {"labels": self._labels} if self._labels else {}
        wire["trainingInput"] = {
            name: value for name, value in self._training.items() if value not in ({}, [], None)
        }
        self._say_what_is_left()
        return LegacyJob(
            name=str(name),
            wire=wire,
            decisions=[
                *self._decisions,
                *self._about_job(wire, has_package=bool(package_path)),
            ],
            package_path=package_path,
            staging=staging,
            task=LegacyTask(task_id=str(task_id), target=self._call.target, arguments=of_task),
            only_vertex=self._options,
        )

    def _about_job(self, wire: Mapping[str, Any], *, has_package: bool) -> list[Decision]:
        try:
            return list(about_job(wire, has_package=has_package, text=self._file.text, is_template=True))
        except (
            InvalidCommand
        ) as error:  # Vertex AI has values that this API never had, like newer accelerators
            self._decide("dag", str(error))
            return [self._decisions.pop()]

    def _of_task(self) -> dict[str, Any]:
        """Return the arguments of every operator that are known."""
        given = {}
        for name in sorted(_OF_TASKS & self._left.keys()):
            value = code_or_value(self._file, self._left[name])
            if isinstance(value, Code) or not self._file.text.parts_of(str(value)):
                given[name] = value
                del self._left[name]
        return given

    # What each operator asks for

    def _container(self) -> None:
        command = self._take("command")
        self._machine({"imageUri": self._take("container_uri"), "containerCommand": command})

    def _python_package(self) -> None:
        self._training |= {
            "packageUris": [self._take("python_package_gcs_uri")],
            "pythonModule": self._take("python_module_name"),
        }
        self._runtime(str(self._take("container_uri")))
        self._machine({})

    def _script(self) -> None:
        self._training["pythonModule"], self._package_path = self._module_and_folder()
        where = self._left.get("staging_bucket") or self._left.get("base_output_dir")
        if where is not None:
            self._left["staging"] = where
        self._decide(
            "package_path",
            "script_path was one file: its folder must be a Python package (with __init__.py) or have a setup.py",
        )
        if requirements := self._take("requirements"):
            self._decide(
                "package_path",
                f"requirements={requirements!r}: write them into install_requires of the trainer's setup.py",
            )
        self._runtime(str(self._take("container_uri")))
        self._machine({})

    def _module_and_folder(self) -> tuple[str, str]:
        """Return the module of a script, and the folder of its package."""
        node = self._left.get("script_path", ast.Constant(""))
        written, path = ast.unparse(node), str(self._take("script_path") or "")
        folder, _, script = path.rpartition("/")
        if self._file.text.parts_of(path):  # a part of it tells neither of the two
            return (
                self._file.unknown("python_module", f"the module in {written}", node.lineno),
                self._file.unknown("package_path", f"the folder of {written}", node.lineno),
            )
        package = folder.rpartition("/")[2]
        return f"{package}.{script.removesuffix('.py')}".strip("."), folder or "."

    def _custom_job(self) -> None:
        for name in ("retry", "timeout", "metadata"):  # of the provider's own requests
            self._left.pop(name, None)
        written = ast.unparse(self._left.get("custom_job", ast.Constant(None)))
        job = self._take("custom_job")
        if not isinstance(job, Mapping):
            self._decide(
                "image",
                f"custom_job={_short(written)} cannot be read without running the file: give image, args, "
                "master_type and job_dir, as its job_spec has them",
            )
            return
        found = read_custom_job(job, self._decide, self._option)
        self._labels = found.labels
        self._training |= {**found.training, "region": self._take("region")}
        if found.container:
            self._runtime(found.container)
        if found.folder:
            self._folder(found.folder)

    def _ml_engine(self) -> None:
        for name, wire in _ML_ENGINE_FIELDS.items():
            value = self._take(name)
            if wire in ("args", "packageUris") and isinstance(value, str) and value:
                value = [value]
            if value is not None:
                self._training[wire] = value
        if self._take("mode") not in (None, "PRODUCTION"):
            self._decide(
                "dag", "mode='DRY_RUN' only logged the request; PlanTrainingOperator shows what would be done"
            )
        if self._take("cancel_on_kill") in (False, "False"):
            self._decide(
                "wait", "cancel_on_kill=False: set it on this task, too, if the job is to go on without it"
            )

    # Parts that several have

    def _runtime(self, container: str) -> None:
        if version := _TENSORFLOW_RUNTIME.fullmatch(container):
            self._training["runtimeVersion"] = f"{version[1]}.{version[2]}"
        self._option(
            "executor_image_uri",
            container,
            "runtime_version",
            f"the package ran in {container}; here it runs in the image that the service has for a runtime version",
        )

    def _machine(self, master: dict[str, Any]) -> None:
        """Read what a pipeline says of machines: equals, the first of them the chief."""
        kind, count = self._take("accelerator_type"), self._take("accelerator_count")
        disk = {
            "bootDiskType": self._take("boot_disk_type"),
            "bootDiskSizeGb": self._take("boot_disk_size_gb"),
        }
        hardware: dict[str, Any] = {}
        if kind not in NO_ACCELERATOR and count not in (None, 0):
            hardware["acceleratorConfig"] = {"type": kind, "count": count}
        if disk := {name: value for name, value in disk.items() if value is not None}:
            hardware["diskConfig"] = disk
        machine = self._take("machine_type") or "n1-standard-4"
        self._training |= {
            "region": self._take("region"),
            "scaleTier": "CUSTOM",
            "masterType": machine,
            "masterConfig": {name: value for name, value in {**master, **hardware}.items() if value},
            "serviceAccount": self._take("service_account"),
            "network": self._take("network"),
        }
        self._workers(machine, {**hardware, **master})
        args = words(self._take("args"))
        if self._training.get("pythonModule"):
            self._training["args"] = args
        else:
            place_arguments(
                self._training, {role: args for role in ROLES if f"{role.wire}Type" in self._training}
            )
        if key := self._take("training_encryption_spec_key_name"):
            self._training["encryptionConfig"] = {"kmsKeyName": key}
        base, staging = self._take("base_output_dir"), self._take("staging_bucket")
        folder = base or (f"{str(staging).rstrip('/')}/{JOB_ID_MARK}" if staging else None)
        if folder:
            self._folder(folder)

    def _workers(self, machine: str, config: Mapping[str, Any]) -> None:
        replicas = self._take("replica_count")
        if replicas is None or replicas == 1:
            return
        if not isinstance(replicas, int):
            self._decide(
                "worker_count",
                f"replica_count={self._file.text.as_written(str(replicas))}: one of them is the master, the others are workers",
            )
            return
        self._training |= {
            "workerType": machine,
            "workerCount": str(replicas - 1),
            "workerConfig": {name: value for name, value in config.items() if value and name != "imageUri"},
            "useChiefInTfConfig": True,
        }
        self._decide(
            "worker_count",
            "CLUSTER_SPEC has the roles master and worker here; Vertex AI calls them workerpool0 and workerpool1. TF_CONFIG is the same",
        )

    def _folder(self, folder: str) -> None:
        self._training["jobDir"] = folder
        self._decide(
            "job_dir",
            "Vertex AI told the trainer its folder by AIP_MODEL_DIR (FOLDER/model/), AIP_CHECKPOINT_DIR and "
            "AIP_TENSORBOARD_LOG_DIR; here it is the argument --job-dir",
        )

    # What is left

    def _say_what_is_left(self) -> None:
        if self._call.is_repeated:
            self._decide(
                "task_id", "was called in a loop: this is one task; .partial(...).expand(...) makes it many"
            )
        for unread in self._call.unread:
            self._decide("task_id", f"{unread} cannot be read without running the file")
        self._one(
            "dag",
            _CONNECTION,
            "the connection training_default decides the service, the project and the account",
        )
        names = [name for name in self._left if name.startswith("model_") or name == "parent_model"]
        self._one(
            "collect",
            names,
            "the job is not followed by an upload of a model; RegisterModelOperator registers it",
        )
        names = [name for name in self._left if name.endswith(_SPLITS)]
        names += ["dataset_id", "annotation_schema_uri", "bigquery_destination"]
        self._one(
            "args",
            names,
            "there are no managed datasets: hand the data's gs:// folder over in args; SnapshotDataOperator fixes its version",
        )
        self._variables()
        self._one("collect", ["tensorboard"], "summaries in the job's folder are shown on the job's page")
        for name in sorted(self._left.keys() - _WITHOUT_EFFECT):
            self._one("dag", [name], "has no counterpart and is left out")

    def _variables(self) -> None:
        node = self._left.get("environment_variables")
        self._one(
            "args",
            ["environment_variables"],
            "a job has no variables of its own: set them in the image (ENV), pass them as args, or keep secrets with trainer_secrets",
        )
        variables = self._file.value(node) if node is not None else None
        if isinstance(variables, Mapping):
            self._options.append(VertexOption(name="env", value=variables, otherwise=self._decisions[-1]))

    def _one(self, about: str, names: Any, text: str) -> None:
        """Say one thing of all arguments among ``names`` that are given."""
        given = [name for name in self._left if name in names]
        shown = ", ".join(f"{name}={_short(ast.unparse(self._left.pop(name)))}" for name in given)
        if given:
            self._decide(about, f"{shown}: {text}")

    def _take(self, name: str) -> Any:
        node = self._left.pop(name, None)
        return None if node is None else self._file.value(node)

    def _option(self, name: str, value: Any, about: str, text: str) -> None:
        """Keep what only Vertex AI has, and say what is to be decided elsewhere."""
        self._decide(about, text)
        self._options.append(VertexOption(name=name, value=value, otherwise=self._decisions[-1]))

    def _decide(self, about: str, text: str) -> None:
        self._decisions.append(Decision(about=about, text=f"line {self._call.line}: {text}"))


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
