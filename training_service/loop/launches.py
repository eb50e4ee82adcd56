"""How replicas are started: everything that a container is given."""

from __future__ import annotations

from collections.abc import Mapping

from container_engines.base import METRIC_FILE, ReplicaLaunch
from training_api.job.dialect import Dialects, ReplicaContext
from training_api.job.machines import Resources
from training_api.job.replica_spec import ReplicaSpec
from training_service.access.secret_store import SecretStore
from training_service.intake.metric_collector import MetricCollector
from training_service.loop.launcher import started
from training_service.model.container_runtimes import RuntimeSetting, runtime_for
from training_service.model.records import JobRecord

#: Variables that a container has from the service, beside those of its dialect and of the settings.
_PROJECT, _METRIC_FILE = "GOOGLE_CLOUD_PROJECT", "CLOUD_ML_HP_METRIC_FILE"


def own_variables(dialects: Dialects) -> frozenset[str]:
    """Return the variables that containers have from the service, whatever their dialect."""
    return frozenset({_PROJECT, _METRIC_FILE}).union(*(each.variables for each in dialects.values()))


class Launches:
    """
    Makes the launch of a replica; safe for threads.

    :param dialects: by the name that a job carries.
    :param container_env: variables that every container gets.
    :param disk_bytes: what the root of each may grow to, where the engine can limit it; 0: no limit.
    :param metric_folders: where trials report their metrics; ``None``: nowhere.
    :param secrets: where the secrets of jobs are.
    :param runtime: the container runtimes of jobs.
    """

    def __init__(
        self,
        *,
        dialects: Dialects,
        container_env: Mapping[str, str],
        pids_limit: int,
        secrets: SecretStore,
        disk_bytes: int = 0,
        metric_folders: MetricCollector | None = None,
        runtime: RuntimeSetting = "",
    ) -> None:
        self._dialects = dialects
        self._container_env = dict(container_env)
        self._pids_limit = pids_limit
        self._secrets = secrets
        self._disk_bytes = disk_bytes
        self._metric_folders = metric_folders
        self._runtime = runtime

    def launch_of(
        self, job: JobRecord, replica: ReplicaSpec, granted: Resources, machine: str = ""
    ) -> ReplicaLaunch:
        """
        Return how a replica is started; its folder for metrics is there.

        :param machine: which of the engine's ``hosts`` it starts on; empty: any.
        :raises EngineError: the folder cannot be made, or a secret cannot be read.
        """
        spec, dialect = job.spec, self._dialects[job.spec.dialect]
        secrets = self._secrets.given(spec)
        folders = self._metric_folders
        metric_folder = folders.prepare(job, replica.replica, machine) if folders else ""
        metric_file = {_METRIC_FILE: METRIC_FILE} if metric_folder else {}
        context = ReplicaContext(
            spec=spec,
            request=job.request,
            replica=replica.replica,
            trial_id=job.trial_id,
            given={_PROJECT: spec.project, **self._container_env, **metric_file},
        )
        # A request may change what the service gives, but not where the metrics go.
        environment = {**context.given, **dialect.environment(context), **metric_file}
        begins = started(
            [dialect.expanded(word, environment) for word in replica.command],
            [dialect.expanded(word, environment) for word in replica.args],
            replica.installs,
            bucket_folder=dialect.bucket_folder,
            variables=environment,
        )
        return ReplicaLaunch(
            job_uid=job.uid,
            job_id=spec.job_id,
            project=spec.project,
            trial_id=job.trial_id,
            replica=replica.replica,
            attempt=job.attempts.of(replica.replica),
            image_id=job.images[replica.image.pullable],
            host_name=dialect.host_name(spec.job_id, replica.replica),
            is_alone=len(spec.replicas) == 1,
            command=begins.command,
            args=begins.args,
            files=begins.files,
            folders=begins.folders,
            environment=environment,
            resources=granted,
            pids_limit=self._pids_limit,
            metric_folder=metric_folder,
            machine=machine,
            secrets=secrets,
            disk_bytes=self._disk_bytes,
            runtime=runtime_for(self._runtime, gpus=granted.gpus, is_package=bool(spec.package_uris)),
        )

    def remove(self, job_uid: str) -> None:
        """Remove what was made for a job's containers on this machine."""
        if self._metric_folders:
            self._metric_folders.remove(job_uid)
