"""The labels by which a service finds what it made on an engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from container_engines.base import ReplicaLaunch
from container_engines.labels import JOB_UID, SERVICE, attempt_of, job_labels, replica_labels, replica_of
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.machines import Resources
from training_api.job.restarts import Attempt

LAUNCH = ReplicaLaunch(
    job_uid="0a",
    job_id="job",
    project="demo",
    replica=ReplicaId(role=ReplicaRole.WORKER, index=11),
    attempt=Attempt(retry=1, restart=2),
    image_id="sha256:1",
    host_name="worker-11",
    command=(),
    args=(),
    environment={},
    resources=Resources(cpus=1, memory_bytes=1),
    pids_limit=64,
)


@pytest.mark.parametrize("role", list(ReplicaRole))
@pytest.mark.parametrize("attempt", [Attempt(), Attempt(retry=10, restart=3)])
def test_a_container_says_which_run_of_which_replica_it_is(role: ReplicaRole, attempt: Attempt) -> None:
    launch = replace(LAUNCH, replica=ReplicaId(role=role, index=0), attempt=attempt)

    labels = replica_labels("service", launch)

    assert (replica_of(labels), attempt_of(labels)) == (launch.replica, attempt)


def test_a_container_of_an_earlier_version_is_the_first_run() -> None:
    labels = replica_labels("service", LAUNCH)
    del labels["container-training.attempt"]

    assert attempt_of(labels) == Attempt()


def test_what_replicas_share_says_whose_it_is_and_of_no_replica() -> None:
    labels = job_labels("service", LAUNCH)

    assert (labels[SERVICE], labels[JOB_UID]) == ("service", "0a")
    assert labels.items() < replica_labels("service", LAUNCH).items()
    with pytest.raises(KeyError):
        replica_of(labels)


def test_only_what_belongs_to_a_trial_names_one() -> None:
    assert "container-training.trial" not in job_labels("service", LAUNCH)
    assert job_labels("service", replace(LAUNCH, trial_id="3"))["container-training.trial"] == "3"


def test_every_label_is_the_projects_own_and_a_text() -> None:
    labels = replica_labels("service", replace(LAUNCH, trial_id="3"))

    assert all(
        name.startswith("container-training.") and isinstance(value, str) for name, value in labels.items()
    )
