"""Faults of jobs: what the loop is kept from doing, and the containers that it loses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import structlog

from container_engines.base import Engine, EngineView
from training_api.states import JobState, ReplicaState
from training_service.faults.board import FaultBoard
from training_service.faults.rules import FaultKind, is_to_be_lost, keeps_preparing
from training_service.model.records import JobRecord
from training_service.model.work import Action, PullImages, StartReplicas, Transition

logger = structlog.get_logger(__name__)


class FaultyJobs:
    """Stands between what the loop decides and what it does; one thread."""

    def __init__(self, board: FaultBoard, engine: Engine) -> None:
        self._board = board
        self._engine = engine
        #: Jobs that were told of, so that the log has one line about each.
        self._told: set[tuple[FaultKind, str]] = set()
        self._lost: set[str] = set()

    def allowed(self, actions: Iterable[Action], now: datetime) -> list[Action]:
        """
        Return those of ``actions`` that no fault withholds.

        Cancels, limits and ends are never withheld.
        """
        return [action for action in actions if not self._is_withheld(action, now)]

    def lose_replicas(self, jobs: Sequence[JobRecord], view: EngineView, now: datetime) -> None:
        """Kill the containers whose time has come. :raises EngineError: the engine does not answer."""
        by_uid = {job.uid: job for job in jobs}
        for observed in view.replicas:
            job = by_uid.get(observed.job_uid)
            is_there = observed.state is ReplicaState.RUNNING and observed.container_id not in self._lost
            if job is None or not is_there:
                continue
            task_name = observed.replica.task_name
            for fault in self._board.of_job(FaultKind.LOSE_REPLICA, job.spec.job_id):
                if is_to_be_lost(fault, task_name, observed.started_at, now):
                    logger.info("fault", kind=fault.kind.value, job=job.spec.job_id, replica=task_name)
                    self._engine.stop_replica(observed.container_id, 0.0)
                    self._lost.add(observed.container_id)
                    self._board.count(fault)
                    break

    def _is_withheld(self, action: Action, now: datetime) -> bool:
        match action:
            case Transition(job=job, to=JobState.PREPARING):
                faults = self._board.of_job(FaultKind.STOCK_OUT, job.spec.job_id)
            case PullImages(job=job) | StartReplicas(job=job) if job.state is JobState.PREPARING:
                faults = [
                    fault
                    for fault in self._board.of_job(FaultKind.SLOW_PREPARING, job.spec.job_id)
                    if keeps_preparing(fault, job.preparing_at, now)
                ]
            case _:
                return False
        for fault in faults[:1]:
            if (fault.kind, job.uid) not in self._told:
                self._told.add((fault.kind, job.uid))
                logger.info("fault", kind=fault.kind.value, job=job.spec.job_id)
        return bool(faults)
