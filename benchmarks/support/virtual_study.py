"""
A whole study on a virtual clock.

The real service's parts run around the engine in memory, in one thread.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.support.memory_service import TAG
from container_engines.base import ReplicaLaunch
from container_engines.memory.engine import Behaviour
from container_engines.memory.scripted_reports import ScriptedReport
from tests.support.fakes.world import World
from training_api.dialects.ml_v1.resources import HyperparameterSpec
from training_api.states import JobState
from training_service.store.database import open_database

_RUN_SECONDS = 10.0


def run_study(search: HyperparameterSpec) -> float:
    """Return the real seconds of a study whose trials of ten virtual seconds cost nothing."""
    slots = search.max_parallel_trials or 1
    with tempfile.TemporaryDirectory() as folder:
        database = open_database(f"sqlite:///{Path(folder) / 'jobs.db'}")
        world = World(database, max_replicas=slots)
        world.add_image(Behaviour(run_seconds=_RUN_SECONDS, report=_score))
        world.submit(hyperparameters=search)
        started = time.perf_counter()
        while world.store.list_active():
            world.settle(steps=10 * slots)
            world.engine.advance(_RUN_SECONDS)
        seconds = time.perf_counter() - started
        job = world.get()
        database.dispose()
    trials = (job.training_output.trials if job.training_output else None) or []
    if job.state is not JobState.SUCCEEDED or len(trials) != search.max_trials:
        raise RuntimeError(f"the study is {job.state} after {len(trials)} trials: {job.error_message}")
    return seconds


def _score(launch: ReplicaLaunch) -> Iterable[ScriptedReport]:
    given = dict(argument.removeprefix("--").split("=", 1) for argument in launch.args)
    value = -((math.log10(float(given["lr"])) + 2) ** 2) - (int(given["units"]) / 512 - 0.5) ** 2
    return [ScriptedReport(after_seconds=1.0, tag=TAG, step=1, value=value)]
