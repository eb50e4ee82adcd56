"""
Writes database_6ec1646.sql with the code of commit 6ec1646.

It uses that commit's service in memory.
Run in a checkout of that commit:
``PYTHONPATH=.:plugins python make_database_6ec1646.py > database_6ec1646.sql``.
It cannot run with today's code.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from pathlib import Path

from container_training.core.states import JobState  # type: ignore[import-not-found]
from container_training.core.wire import (  # type: ignore[import-not-found]
    Job,
    ReplicaConfig,
    Scheduling,
    TrainingInput,
)
from tests.unit.training_service.tuning.conftest import Tuning, search  # type: ignore[import-not-found]
from tests.unit.training_service.world import IMAGE, PROJECT, World  # type: ignore[import-not-found]
from training_service.engine.memory_engine import Behaviour  # type: ignore[import-not-found]

from training_service.store.database import open_database


def fill(world: World) -> None:
    """Run jobs until one is in each state that the test needs."""
    world.add_image(Behaviour(run_seconds=5, lines=("epoch 1", "epoch 2")))
    world.submit("good")
    world.settle()
    world.engine.advance(5)
    world.settle()

    world.add_image(Behaviour(run_seconds=5, exit_code=3, lines=("no data",)))
    world.submit("bad")
    world.settle()
    world.engine.advance(5)
    world.settle()

    world.submit("cancelled")
    world.settle()
    world.jobs.cancel(PROJECT, "cancelled")
    world.settle()

    # The second of three trials runs.
    world.add_image(Behaviour(run_seconds=10))
    study = search(max_trials=3, max_parallel_trials=1)
    world.submit("tune", hyperparameters=study, job_dir="gs://bucket/tune", args=["--epochs", "3"])
    world.settle()
    Tuning(world).report()
    world.engine.advance(10)
    world.settle()

    config = ReplicaConfig(image_uri=IMAGE)
    training = TrainingInput(
        scale_tier="CUSTOM",
        master_type="n1-standard-4",
        master_config=config,
        worker_type="n1-standard-8",
        worker_count=2,
        args=["--epochs", "9"],
        job_dir="gs://bucket/running",
    )
    world.jobs.create(PROJECT, Job(job_id="running", labels={"team": "a"}, training_input=training))
    world.settle()

    world.submit("waiting", scheduling=Scheduling(max_wait_time="7200s", priority=5))
    world.settle()
    assert world.state("tune") is JobState.RUNNING
    assert world.state("running") is JobState.RUNNING
    assert world.state("waiting") is JobState.QUEUED


def main() -> None:
    """Print the database as SQL."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "jobs.db"
        database = open_database(f"sqlite:///{file}")
        fill(World(database, max_replicas=4))
        database.dispose()
        print("-- Made by make_database_6ec1646.py with the code of commit 6ec1646.")
        for statement in sqlite3.connect(file).iterdump():
            sys.stdout.writelines(f"{line.rstrip()}\n" for line in statement.splitlines())


if __name__ == "__main__":
    main()
