"""What is said of replicas that failed, and which failures pass."""

from __future__ import annotations

import pytest

from training_api.dialects.vertex_v1.failure_words import failure_text, quota_text, restart_scope
from training_api.job.accelerators import Accelerator
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.dialect import ReplicaFailure
from training_api.job.restarts import RestartScope

CHIEF = ReplicaId(role=ReplicaRole.MASTER)
WORKER = ReplicaId(role=ReplicaRole.WORKER, index=2)


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (
            ReplicaFailure(replica=CHIEF, exit_code=1),
            "The replica workerpool0-0 exited with a non-zero status of 1. Termination reason: Error.",
        ),
        (
            ReplicaFailure(replica=WORKER, exit_code=137, out_of_memory=True),
            "Replicas low on memory: workerpool1. Specify a machine with larger memory and try again.",
        ),
        (
            ReplicaFailure(replica=WORKER, is_lost=True),
            "The replica workerpool1-2 was lost: the engine or its machine stopped while it ran.",
        ),
        (
            ReplicaFailure(replica=WORKER, is_removed=True),
            "The replica workerpool1-2 was lost: its container was removed from the engine.",
        ),
    ],
)
def test_a_failure_is_told_in_the_words_of_the_real_service(failure: ReplicaFailure, text: str) -> None:
    assert failure_text(failure) == text


@pytest.mark.parametrize("code", [134, 139])
def test_an_abort_and_a_bad_access_restart_the_job(code: int) -> None:
    assert restart_scope(ReplicaFailure(replica=CHIEF, exit_code=code)) is RestartScope.JOB
    too_large = ReplicaFailure(replica=CHIEF, exit_code=code, out_of_memory=True)
    assert restart_scope(too_large) is RestartScope.NONE


@pytest.mark.parametrize("code", [1, 2, 126, 127, 130, 137, 143])
def test_every_other_status_is_permanent(code: int) -> None:
    assert restart_scope(ReplicaFailure(replica=CHIEF, exit_code=code)) is RestartScope.NONE


def test_a_replica_that_was_lost_is_started_again() -> None:
    assert restart_scope(ReplicaFailure(replica=CHIEF, is_lost=True)) is RestartScope.REPLICA
    assert restart_scope(ReplicaFailure(replica=CHIEF, is_removed=True)) is RestartScope.REPLICA


@pytest.mark.parametrize(
    ("kind", "metric"),
    [
        (Accelerator.NVIDIA_TESLA_T4, "nvidia_t4_gpus"),
        (Accelerator.NVIDIA_TESLA_A100, "nvidia_a100_gpus"),
        (Accelerator.NVIDIA_A100_80GB, "nvidia_a100_80gb_gpus"),
        (Accelerator.NVIDIA_L4, "nvidia_l4_gpus"),
        (Accelerator.NVIDIA_H100_80GB, "nvidia_h100_gpus"),
    ],
)
def test_a_quota_is_named_by_its_metric(kind: Accelerator, metric: str) -> None:
    assert quota_text("project", {kind: 1}, 0) == (
        "The following quota metrics exceed quota limits: "
        f"aiplatform.googleapis.com/custom_model_training_{metric}"
    )


def test_the_quotas_of_several_kinds_are_named_together() -> None:
    text = quota_text("project", {Accelerator.NVIDIA_TESLA_T4: 1, Accelerator.NVIDIA_L4: 2}, 0)

    assert text.endswith(
        "custom_model_training_nvidia_t4_gpus,aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"
    )
