"""When a job of each DAG and model last succeeded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from container_engines.memory.engine import Behaviour
from tests.support.database_work import database_work
from tests.support.fakes.studies import Tuning
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_service.store.database import open_database, to_us, writing
from training_service.store.jobs.success_store import SuccessStore, record_success
from training_service.store.tables import jobs, last_successes, meta


def run(world: World, job_id: str, **labels: str) -> None:
    """Run a job to its end."""
    world.add_image(Behaviour(run_seconds=1))
    training = TrainingInput(master_config=ReplicaConfig(image_uri=IMAGE))
    world.jobs.create(PROJECT, Job(job_id=job_id, labels=labels or None, training_input=training))
    for _ in range(4):
        world.settle()
        world.engine.advance(1)


def test_the_last_success_of_each_pair_is_kept(world: World) -> None:
    run(world, "a", **{"airflow-dag": "train", "model": "digits"})
    run(world, "b", **{"airflow-dag": "train", "model": "digits"})
    run(world, "c", team="vision")

    found = SuccessStore(world.database).newest()

    ends = {job_id: world.get(job_id).end_time for job_id in "bc"}
    assert found == [("", "", ends["c"]), ("train", "digits", ends["b"])]


def test_a_trial_is_no_success_of_its_dag(tuning: Tuning) -> None:
    tuning.submit(max_trials=1)
    tuning.run()

    assert len(SuccessStore(tuning.world.database).newest()) == 1


def test_an_earlier_end_that_is_seen_later_changes_nothing(world: World) -> None:
    labels = {"model": "digits"}
    for ended_us in (5_000_000, 3_000_000):
        with writing(world.database).begin() as connection:
            record_success(connection, labels, ended_us)

    ((_, _, end),) = SuccessStore(world.database).newest()
    assert to_us(end) == 5_000_000


def test_the_newest_pairs_are_told_and_no_more_of_them_are_read(world: World) -> None:
    def steps_with(pairs: int) -> int:
        with writing(world.database).begin() as connection:
            for place in range(pairs):
                record_success(connection, {"model": f"m{place}"}, 1 + place)
        SuccessStore(world.database).newest(5)
        with database_work(world.database) as work:
            assert [model for _, model, _ in SuccessStore(world.database).newest(2)] == [
                f"m{pairs - 1}",
                f"m{pairs - 2}",
            ]
        return work.steps

    few, many = steps_with(40), steps_with(400)

    assert many <= few + 20


def test_a_scrape_does_not_grow_with_the_jobs_that_have_succeeded(world: World) -> None:
    run(world, "job_0", model="digits")
    store = SuccessStore(world.database)
    store.newest()
    with database_work(world.database) as few:
        store.newest()
    with writing(world.database).begin() as connection:
        row = connection.execute(sa.select(jobs)).one()._asdict()
        del row["sequence"]
        copies = [row | {"uid": f"u{place}", "job_id": f"copy_{place}"} for place in range(2000)]
        connection.execute(sa.insert(jobs), copies)
    with database_work(world.database) as many:
        store.newest()

    assert many.steps <= few.steps


@pytest.mark.parametrize("labels", ["no JSON", "[]", json.dumps({"model": "other"})])
def test_successes_from_before_are_found_at_the_upgrade(tmp_path: Path, labels: str) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    world = World(open_database(url))
    for place, job_id in enumerate("abc"):
        run(world, job_id, **{"airflow-dag": "train", "model": f"m{place % 2}"})
    expected = SuccessStore(world.database).newest()
    run(world, "broken")
    with writing(world.database).begin() as connection:
        connection.exec_driver_sql("UPDATE jobs SET labels = ? WHERE job_id = 'broken'", (labels,))
        connection.execute(sa.delete(last_successes))
        connection.execute(meta.update().where(meta.c.key == "schema_version").values(value="5"))
    world.database.dispose()

    database = open_database(url)

    found = SuccessStore(database).newest()
    assert [each for each in found if each[:2] in {pair[:2] for pair in expected}] == expected
    assert len(found) == len(expected) + 1
    database.dispose()
