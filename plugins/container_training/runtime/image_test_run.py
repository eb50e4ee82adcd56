"""One run of an image on a worker's engine, with the environment of a job's master."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from container_training.hooks.image import training_environment
from container_training.work.submission.job_request import JobFields, job_request
from container_training.work.template_values import is_unset, mapping, number, seconds, whole_number
from training_api.dialects.ml_v1.cluster import cluster_environment
from training_api.dialects.ml_v1.packages import job_dir_args
from training_api.job.cluster import ReplicaId, ReplicaRole, replica_host
from training_api.job.job_id import TaskKey, job_id_for

if TYPE_CHECKING:
    from docker.api import APIClient

    from container_training.work.images.builders.build_order import OnLine
    from container_training.work.images.engine import Cancellation
    from container_training.work.preflight.container_run import RunLimits

DEFAULT_TEST_MEMORY_BYTES = 2 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTestRun:
    """
    How an image is run once; the fields are the arguments of ``TestImageOperator``, rendered.

    :param environment: overrides that of a job.
    :param memory_bytes: ``None``: no limit.
    :param cpus: ``None``: no limit.
    """

    args: Sequence[Any] | str | None
    timeout: timedelta | float | str
    training_conn_id: str
    environment: Mapping[str, str] | None = None
    job_dir: str | None = None
    memory_bytes: int | str | None = DEFAULT_TEST_MEMORY_BYTES
    cpus: float | str | None = None

    def limits(self) -> RunLimits:
        """Return the limits. :raises TrainingError: one of them makes no sense."""
        from container_training.work.preflight.container_run import RunLimits

        memory, cpus = self.memory_bytes, self.cpus
        return RunLimits(
            timeout_seconds=seconds("timeout", self.timeout),
            memory_bytes=None if is_unset(memory) else whole_number("memory_bytes", memory),
            cpus=None if is_unset(cpus) else number("cpus", cpus),
        )

    def run(
        self,
        api_client: APIClient,
        image: str,
        key: TaskKey,
        limits: RunLimits,
        on_line: OnLine,
        cancellation: Cancellation,
    ) -> None:
        """
        Run ``image``, which the engine has, as the master of a job of the task ``key``.

        :raises TrainingError: as ``run_container``.
        """
        from container_training.work.preflight.container_run import run_container

        job_id = job_id_for(key, attempt=1)
        master = ReplicaId(role=ReplicaRole.MASTER)
        request = job_request(None, JobFields(image=image, args=self.args, job_dir=self.job_dir))
        training = request.training_input
        args = [*((training.args if training else None) or ()), *job_dir_args(self.job_dir)]
        cluster = cluster_environment(
            job_id=job_id,
            replica=master,
            replicas=[master],
            job_parameters=training.to_wire() if training else {},
        )
        given = {name: str(value) for name, value in mapping("environment", self.environment).items()}
        on_line(f"running {image} {' '.join(args)}")
        elapsed_seconds = run_container(
            api_client,
            image,
            args,
            limits=limits,
            on_output=lambda stream, line: on_line(f"{stream} | {line}"),
            owner=f"airflow-{key.digest}",
            environment=cluster | training_environment(self.training_conn_id) | given,
            hostname=replica_host(job_id, master),
            cancellation=cancellation,
        )
        on_line(f"{image} exited with 0 after {elapsed_seconds:.1f} s")
