"""Tries of one task that submits a job, in virtual time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from container_training.hooks.training import TrainingHook
from container_training.runtime.job_submission import JobSubmission, TaskSide, Wanted
from tests.support.fakes.fake_service import make_job
from tests.support.fakes.virtual_time import VirtualClock
from training_api.clients.backend import NO_OPTIONS, TrainingBackend
from training_api.dialects.ml_v1.intent import Intent, owner_labels, request_hash
from training_api.dialects.ml_v1.resources import Job
from training_api.job.job_id import TaskKey

KEY = TaskKey(dag_id="train_digits", task_id="submit", run_id="manual__1")
REQUEST = make_job(job_id=None, state=None, create_time=None)
HASH = request_hash(REQUEST)
FIRST = Intent(request_hash=HASH, job_id="digits_1", owner="me")
LAG = 60.0


@dataclass
class Try:
    """
    Tries of one task against a service; time passes in sleeps only.

    :param client: what the hook of the task asks.
    """

    client: TrainingBackend
    clock: VirtualClock = field(default_factory=VirtualClock)
    naps: list[float] = field(default_factory=list)
    stored: list[Intent] = field(default_factory=list)
    creates: int = 0
    earlier: Job | None = None
    on_nap: Callable[[], None] = lambda: None

    @property
    def seconds(self) -> float:
        """What the clock shows."""
        return self.clock.seconds

    def run(
        self, intent: Intent = FIRST, request: Job = REQUEST, options: Mapping[str, Any] = NO_OPTIONS
    ) -> Job:
        """Settle the task's job."""
        hook = TrainingHook()
        hook.client = self.client
        hook._sleep = self._nap
        wanted = Wanted(key=KEY, job=request, request_hash=request_hash(request, options), options=options)
        submission = JobSubmission(hook, logging.getLogger("task"), sleep=self._nap, now=lambda: self.seconds)
        task = TaskSide(
            job_id=lambda attempt: f"{intent.job_id}_{attempt}",
            labels=lambda intent: owner_labels(KEY, intent),
            store=self._store,
            earlier_job=lambda: self.earlier,
            before_submitting=self._count,
        )
        return submission.settle(wanted, intent, task)

    def _nap(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.clock.seconds += seconds
        self.on_nap()

    def _store(self, intent: Intent) -> Intent:
        self.stored.append(intent)
        return intent

    def _count(self) -> None:
        self.creates += 1
