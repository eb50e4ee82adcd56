"""The sentence about a replica that failed."""

from __future__ import annotations

import pytest

from training_api.dialects.ml_v1.failure_words import failure_text
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.dialect import ReplicaFailure

WORKER = ReplicaId(role=ReplicaRole.WORKER, index=2)


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (
            ReplicaFailure(replica=WORKER, exit_code=3),
            "The replica worker 2 exited with a non-zero status of 3.",
        ),
        (
            ReplicaFailure(replica=WORKER, exit_code=137, out_of_memory=True),
            "The replica worker 2 ran out-of-memory and exited with a non-zero status of 9(SIGKILL).",
        ),
        (
            ReplicaFailure(replica=WORKER, exit_code=1, out_of_memory=True),
            "The replica worker 2 ran out-of-memory and exited with a non-zero status of 1.",
        ),
        (
            ReplicaFailure(replica=WORKER, exit_code=255, is_lost=True),
            "The replica worker 2 was lost: the engine or its machine stopped while it ran.",
        ),
        (
            ReplicaFailure(replica=WORKER, is_removed=True),
            "The replica worker 2 was lost: its container was removed from the engine.",
        ),
    ],
)
def test_the_sentence_says_how_it_ended(failure: ReplicaFailure, text: str) -> None:
    assert failure_text(failure) == text
