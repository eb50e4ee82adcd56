"""How replicas are started: everything that a container is given."""

from __future__ import annotations

from collections.abc import Mapping

from container_engines.base import METRIC_FILE, ReplicaLaunch
from training_api.job.cluster import cluster_environment, replica_host
from training_api.job.machines import Resources
from training_api.job.python_package import is_package_job
from training_api.job.replica_spec import ReplicaSpec
from training_api.job.tuning.study_spec import StudySpec
from training_api.job.tuning.trial_spec import trial_environment
from training_service.access.secret_store import SecretStore
from training_service.intake.metric_collector import MetricCollector
from training_service.model.container_runtimes import RuntimeSetting, runtime_for
from training_service.model.records import JobRecord

#: Variables that a container has from the service, beside those of the settings.
OWN_VARIABLES = frozenset(
    {
        "GOOGLE_CLOUD_PROJECT",
        "CLUSTER_SPEC",
        "TF_CONFIG",
        "CLOUD_ML_TRIAL_ID",
        "CLOUD_ML_HP_METRIC_TAG",
        "CLOUD_ML_HP_METRIC_FILE",
    }
)


class Launches:
    """
    Makes the launch of a replica; safe for threads.

    :param container_env: variables that every container gets.
    :param disk_bytes: what the root of each may grow to, where the engine can limit it; 0: no limit.
    :param metric_folders: where trials report their metrics; ``None``: nowhere.
    :param secrets: where the secrets of jobs are.
    :param runtime: the container runtimes of jobs.
    """

    def __init__(
        self,
        *,
        container_env: Mapping[str, str],
        pids_limit: int,
        secrets: SecretStore,
        disk_bytes: int = 0,
        metric_folders: MetricCollector | None = None,
        runtime: RuntimeSetting = "",
    ) -> None:
        self._container_env = dict(container_env)
        self._pids_limit = pids_limit
        self._secrets = secrets
        self._disk_bytes = disk_bytes
        self._metric_folders = metric_folders
        self._runtime = runtime

    def launch_of(self, job: JobRecord, replica: ReplicaSpec, granted: Resources) -> ReplicaLaunch:
        """
        Return how a replica is started; its folder for metrics is there.

        :raises EngineError: the folder cannot be made, or a secret cannot be read.
        """
        spec = job.spec
        secrets = self._secrets.given(spec)
        metric_folder = self._metric_folders.prepare(job, replica.replica) if self._metric_folders else ""
        environment = {
            "GOOGLE_CLOUD_PROJECT": spec.project,
            **self._container_env,
            **cluster_environment(
                job_id=spec.job_id,
                replica=replica.replica,
                replicas=[other.replica for other in spec.replicas],
                job_parameters=spec.training_input.to_wire(),
                use_chief=spec.use_chief,
                trial_id=job.trial_id,
            ),
            **_trial_environment(job),
            **({"CLOUD_ML_HP_METRIC_FILE": METRIC_FILE} if metric_folder else {}),
        }
        return ReplicaLaunch(
            job_uid=job.uid,
            job_id=spec.job_id,
            project=spec.project,
            trial_id=job.trial_id,
            replica=replica.replica,
            attempt=job.attempts.of(replica.replica),
            image_id=job.images[replica.image.pullable],
            host_name=replica_host(spec.job_id, replica.replica),
            command=replica.command,
            args=replica.args,
            environment=environment,
            resources=granted,
            pids_limit=self._pids_limit,
            metric_folder=metric_folder,
            secrets=secrets,
            disk_bytes=self._disk_bytes,
            runtime=runtime_for(
                self._runtime, gpus=granted.gpus, is_package=is_package_job(spec.training_input)
            ),
        )

    def remove(self, job_uid: str) -> None:
        """Remove what was made for a job's containers on this machine."""
        if self._metric_folders:
            self._metric_folders.remove(job_uid)


def _trial_environment(job: JobRecord) -> dict[str, str]:
    study = job.spec.training_input.hyperparameters
    return trial_environment(StudySpec.from_wire(study), job.trial_id) if job.trial and study else {}
