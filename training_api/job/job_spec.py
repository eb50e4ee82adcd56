"""A validated job in the project's own terms, whatever dialect it was asked for in. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from training_api.job.packages.python_package import PythonPackages, with_uris
from training_api.job.replica_spec import ReplicaSpec
from training_api.job.restarts import RestartScope
from training_api.job.secret_refs import SecretRef
from training_api.job.tuning.study_spec import StudySpec

#: The limit of a job that names none. discovery of ml.v1: Scheduling.maxRunningTime "defaults to 604800s
#: (seven days)"; of aiplatform.v1: Scheduling.timeout "The default is 7 days".
DEFAULT_RUNNING = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """
    A validated job: what was asked, in the project's own terms.

    :param replicas: at least the master, which comes first; none only in a stored job that cannot be read.
    :param dialect: the name of the dialect in which it was asked for, and is shown.
    :param max_wait: limit on QUEUED and PREPARING together; ``None``: none.
    :param max_running: limit on RUNNING.
    :param priority: 0 to 1000, higher first.
    :param study: what a tuning job searches for; ``None``: the job trains once.
    :param secrets: what each of its containers gets from the service's store.
    :param output_dir: the folder in Cloud Storage where it writes; of a trial its own; empty: none.
    :param use_chief: whether TF_CONFIG names the master ``chief``.
    :param service_account: whose rights its containers have; empty: the project's service agent.
    :param region: where it is said to run; empty: nowhere in particular.
    :param packages: what it installs on a runtime's image; ``None``: each replica has an image of its own.
    :param restarts: what is at least started again after a failure that may pass.
    """

    project: str
    job_id: str
    replicas: tuple[ReplicaSpec, ...]
    dialect: str = "ml_v1"
    labels: dict[str, str] = field(default_factory=dict)
    max_wait: timedelta | None = None
    max_running: timedelta = DEFAULT_RUNNING
    priority: int = 0
    study: StudySpec | None = None
    secrets: tuple[SecretRef, ...] = ()
    output_dir: str = ""
    use_chief: bool = False
    service_account: str = ""
    region: str = ""
    packages: PythonPackages | None = None
    restarts: RestartScope = RestartScope.REPLICA

    @property
    def master(self) -> ReplicaSpec:
        """The replica that decides how the job ends."""
        return self.replicas[0]

    @property
    def package_uris(self) -> dict[str, tuple[str, ...]]:
        """What it installs, by the place in the specification; no entry for what installs nothing."""
        found = {"packages.uris": self.packages.uris} if self.packages else {}
        for each in self.replicas:
            if each.installs:
                found[f"installs.{each.replica.role}.uris"] = each.installs.uris
        return found

    def with_package_uris(self, others: Mapping[str, str]) -> JobSpec:
        """Return the job with other packages. :param others: of every one, what takes its place."""
        packages = self.packages
        if packages:
            packages = replace(packages, uris=tuple(others[uri] for uri in packages.uris))
        return replace(
            self,
            packages=packages,
            replicas=tuple(_with_others(each, packages, others) for each in self.replicas),
        )


def _with_others(
    replica: ReplicaSpec, packages: PythonPackages | None, others: Mapping[str, str]
) -> ReplicaSpec:
    if replica.installs:
        uris = tuple(others[uri] for uri in replica.installs.uris)
        return replace(replica, installs=replace(replica.installs, uris=uris))
    return replace(replica, args=with_uris(replica.args, packages.uris)) if packages else replica
