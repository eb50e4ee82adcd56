"""One step of every role of a job on this machine, before the job is submitted."""

from __future__ import annotations

import io
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

from container_training.hooks.failures import final_unless_transient
from container_training.hooks.image import training_environment
from container_training.hooks.registry_iam import RegistryIamHook
from container_training.hooks.storage import StorageHook
from container_training.hooks.training import TrainingHook
from container_training.runtime.engine_task import EngineOperator
from container_training.runtime.job_description import JobArguments, JobDescriptionOperator
from container_training.runtime.task_arguments import EngineArguments
from container_training.work.preflight.plan import preflight_job, preflight_replicas
from container_training.work.preflight.report import (
    Check,
    PreflightReport,
    PreflightRow,
    ReplicaOutcome,
    Verdict,
    replica_rows,
)
from container_training.work.submission.job_attempt import for_attempt
from container_training.work.template_values import (
    flag,
    is_unset,
    mapping,
    number,
    shell_words,
    whole_number,
)
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.errors import PreflightFailed
from training_api.job.job_id import TaskKey, job_id_for
from training_api.job.machines import usable

if TYPE_CHECKING:
    from airflow.sdk import Context

    from container_engines.docker.driver import ContainerLaunch
    from training_api.job.cluster import ReplicaId
    from training_api.job.job_spec import JobSpec
    from training_api.job.replica_spec import ReplicaSpec
    from training_api.job.results import ResultFile

DEFAULT_WATCH_SECONDS = 20.0
#: The service's own default (``TRAINING_STOP_GRACE_SECONDS``).
DEFAULT_GRACE_SECONDS = 10.0
#: Wider than any line: where a line breaks, whoever shows the log decides, and a path is never cut.
_TABLE_WIDTH = 20_000
_SHOWN_FILES = 5


class PreflightArguments(JobArguments, EngineArguments, total=False):
    """Arguments of ``PreflightOperator`` that describe the job, and of ``EngineOperator``."""


class PreflightOperator(EngineOperator, JobDescriptionOperator):
    """
    Starts one step of every role of a job on this machine, and reports what would fail.

    At most two replicas of each role run side by side, on a network of their own, with the job's images,
    arguments, cluster variables and limits, and with a folder of their own within the job's. Each check has a
    row in one table: every entry point starts and does not fail; ``CLUSTER_SPEC`` and ``TF_CONFIG`` agree and
    are read; SIGTERM ends each replica in time; the job's folder can be written to. Containers get no GPUs.
    Everything is removed afterwards, in every case.

    For a connection to Vertex AI it also checks what the job needs there: that the service agent may pull the
    images, that the bucket of the job's folder exists, that the region has the machines, and that the quotas
    suffice. A row says ``not checked`` where an API refuses or does not answer.

    A check that fails ends the task without a retry. Airflow retries the task if the engine, the registry or
    the object store does not answer.

    :param preflight_args: arguments that make one step; they replace the job's. Text is split as a shell
        would split it. Replicas whose arguments differ from the master's keep their own. (templated)
    :param seconds: how long the replicas are watched. The watch ends earlier if the master ends well, or if a
        replica fails. (templated)
    :param grace_seconds: seconds between SIGTERM and SIGKILL. (templated)
    :param memory_bytes: memory limit of each container; default: that of its machine type, as far as the
        machine has it. (templated)
    :param check_access: whether to check, by the IAM policies, that Vertex AI's service agent may pull the
        images. ``training_pipeline`` sets ``False``: its ``grant`` runs at the same time. (templated)
    :param vertex_options: the same as for ``SubmitTrainingJobOperator``. (templated)
    :param gcp_conn_id: Google connection that may write to the job's folder. It also reads the policies of
        the images' repositories, as in ``GrantRegistryAccessOperator``. (templated)
    :return: the table (``PreflightReport``). It is in the XCom after a failed check, too.
    """

    template_fields: Sequence[str] = (
        *JobDescriptionOperator.template_fields,
        "preflight_args",
        "seconds",
        "grace_seconds",
        "memory_bytes",
        "check_access",
        "vertex_options",
        "gcp_conn_id",
        "docker_conn_id",
        "docker_url",
    )
    template_fields_renderers = {
        **JobDescriptionOperator.template_fields_renderers,
        "preflight_args": "json",
        "vertex_options": "json",
    }

    def __init__(
        self,
        *,
        preflight_args: Sequence[Any] | str | None = None,
        seconds: float | str = DEFAULT_WATCH_SECONDS,
        grace_seconds: float | str = DEFAULT_GRACE_SECONDS,
        memory_bytes: int | str | None = None,
        check_access: bool | str = True,
        vertex_options: Mapping[str, Any] | str | None = None,
        gcp_conn_id: str = StorageHook.default_conn_name,
        **kwargs: Unpack[PreflightArguments],
    ) -> None:
        super().__init__(**cast(Any, kwargs))  # of two bases
        self.preflight_args = preflight_args
        self.seconds = seconds
        self.grace_seconds = grace_seconds
        self.memory_bytes = memory_bytes
        self.check_access = check_access
        self.vertex_options = vertex_options
        self.gcp_conn_id = gcp_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the checks; return the table."""
        key = TaskKey.of(context["ti"])
        with self.hook, final_unless_transient():
            grace_seconds = number("grace_seconds", self.grace_seconds)
            job = for_attempt(self._request(context), self.job_id or job_id_for(key, attempt=1), {})
            options = mapping("vertex_options", self.vertex_options)
            with TrainingHook(self.training_conn_id) as training:
                whole = training.client.check_job(job, options)
                job = preflight_job(job, key.digest)
                spec = training.client.check_job(job, options)
                foreseen = self._foreseen(training, whole, options)
            replicas = preflight_replicas(spec, self._args())
            outcomes = self._run(spec, job, replicas, f"airflow-{key.digest}", grace_seconds)
            rows = replica_rows(outcomes, grace_seconds)
            rows += [*self._job_dir_rows(spec), *_accelerator_rows(replicas), *foreseen]
            report = PreflightReport.of(rows)
            table = _table(report.rows)
            for line in table.splitlines():
                self.log.info("%s", line)
            value = report.model_dump(mode="json")
            if not report.ok:
                context["ti"].xcom_push(key="return_value", value=value)
                raise PreflightFailed(
                    f"{len(report.failed)} of {len(report.rows)} checks failed:\n{_table(report.failed)}"
                )
        return value

    def _foreseen(
        self, training: TrainingHook, spec: JobSpec, options: Mapping[str, Any]
    ) -> list[PreflightRow]:
        if not flag("check_access", self.check_access):
            return training.foresee(spec, options, None)
        with RegistryIamHook(self.training_conn_id, self.gcp_conn_id) as policies:
            return training.foresee(spec, options, policies.client)

    def _args(self) -> list[str]:
        args = self.preflight_args
        return (
            shell_words("preflight_args", args)
            if isinstance(args, str)
            else [str(word) for word in args or ()]
        )

    def _run(
        self, spec: JobSpec, job: Job, replicas: Sequence[ReplicaSpec], owner: str, grace_seconds: float
    ) -> list[ReplicaOutcome]:
        from container_training.work.preflight.cluster_run import run_cluster

        launches = self._launches(spec, job, replicas)
        for replica, launch in launches.items():
            self.log.info(
                "%s: %s %s",
                replica.task_name,
                launch.image,
                shlex.join([*launch.command, *launch.args]),
            )
        return run_cluster(
            self.hook.api_client,
            launches,
            owner=owner,
            watch_seconds=number("seconds", self.seconds),
            grace_seconds=grace_seconds,
            find_login=self.hook.find_login,
            on_line=self._log_line,
            cancellation=self._new_cancellation(),
        )

    def _launches(
        self, spec: JobSpec, job: Job, replicas: Sequence[ReplicaSpec]
    ) -> dict[ReplicaId, ContainerLaunch]:
        from container_engines.docker.driver import ContainerLaunch, DockerDriver, machine_of
        from training_api.dialects.ml_v1.dialect import ML_V1
        from training_api.job.capacity import Capacity, grants
        from training_api.job.dialect import ReplicaContext

        given = None if is_unset(self.memory_bytes) else whole_number("memory_bytes", self.memory_bytes)
        # Without its GPUs, as no container here gets any.
        room = usable(machine_of(DockerDriver(self.hook.api_client).info()))
        limits = grants(replicas, Capacity(each=room, total=room))
        environment = training_environment(self.training_conn_id)
        started = replace(spec, replicas=tuple(replicas))
        request = (job.training_input or TrainingInput()).to_wire()
        return {
            item.replica: ContainerLaunch(
                image=item.image.pullable,
                command=item.command,
                args=item.args,
                environment=ML_V1.environment(
                    ReplicaContext(
                        spec=started,
                        request=request,
                        replica=item.replica,
                        trial_id="1" if spec.study else "",
                    )
                )
                | environment,
                host_name=ML_V1.host_name(spec.job_id, item.replica),
                memory_bytes=given or granted.memory_bytes,
                cpus=granted.cpus,
            )
            for item, granted in zip(replicas, limits, strict=True)
        }

    def _job_dir_rows(self, spec: JobSpec) -> list[PreflightRow]:
        """Try to write to the preflight's folder; what the trainer wrote there is named and removed."""
        from container_training.work.preflight.folder_probe import probe_folder

        folder = spec.output_dir
        if not folder:
            return [_folder_row("this worker", Verdict.NOT_CHECKED, "the job has no job directory")]
        with StorageHook(self.gcp_conn_id) as storage:
            probe = probe_folder(storage.get_conn(), folder)
        if probe.problem:
            return [_folder_row("this worker", Verdict.FAILED, probe.problem)]
        rows = [
            _folder_row(
                "this worker", Verdict.OK, f"it wrote, read back and deleted an object below {folder}"
            )
        ]
        if probe.files:
            return [
                *rows,
                _folder_row("the trainer", Verdict.OK, f"it wrote {_named(probe.files, folder)}; deleted"),
            ]
        return [*rows, _folder_row("the trainer", Verdict.NOT_CHECKED, "it wrote nothing in this time")]


def _named(files: Sequence[ResultFile], folder: str) -> str:
    names = [file.uri.removeprefix(f"{folder}/") for file in files]
    more = f" and {len(names) - _SHOWN_FILES} more" if len(names) > _SHOWN_FILES else ""
    return ", ".join(names[:_SHOWN_FILES]) + more


def _folder_row(where: str, result: Verdict, why: str) -> PreflightRow:
    return PreflightRow(check=Check.JOB_DIR, where=where, result=result, why=why)


def _accelerator_rows(replicas: Sequence[ReplicaSpec]) -> list[PreflightRow]:
    return [
        PreflightRow(
            check=Check.ACCELERATORS,
            where=item.replica.task_name,
            result=Verdict.NOT_CHECKED,
            why=f"the job gives it {item.gpus} x {item.gpu or 'GPU'}, a preflight none",
        )
        for item in replicas
        if item.gpus
    ]


def _table(rows: Sequence[PreflightRow]) -> str:
    """Return ``rows`` as text without colours: a task's log is a file."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("check", "where", "result", "why", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*(Text(cell) for cell in (row.check, row.where, row.result, row.why)))
    text = io.StringIO()
    Console(
        file=text, width=_TABLE_WIDTH, color_system=None, markup=False, emoji=False, highlight=False
    ).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())
