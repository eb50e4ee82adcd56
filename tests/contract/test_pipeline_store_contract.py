"""
Pipelines and models on every database.

They are written with their jobs, and are still there when these are gone.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from container_engines.memory.engine import Behaviour
from tests.support.fakes.stored_pipelines import LOCATION, store_pipeline
from tests.support.fakes.training_pipelines import MODEL
from tests.support.fakes.world import PROJECT, World
from training_api.causes import Cause
from training_api.dialects.vertex_v1.filters import read_filter
from training_api.dialects.vertex_v1.pipelines.filters import OF_MODELS, OF_PIPELINES
from training_api.errors import InvalidRequest, JobConflict
from training_api.states import JobState
from training_service.model.pipelines import ModelRecord, PipelineRecord
from training_service.store.database import open_database, read_meta, writing
from training_service.store.ended.ended_jobs import Choice, EndedJob, EndedJobs
from training_service.store.pipelines.model_store import ModelStore
from training_service.store.pipelines.pipeline_store import PipelineStore
from training_service.store.tables import jobs, meta, models, pipelines
from training_service.upkeep.tasks import remove_batch, remove_jobs

ROOT = Path(__file__).parents[2]


def pipeline_of(world: World, number: int = 1) -> PipelineRecord:
    found = PipelineStore(world.database).get(PROJECT, str(number))
    assert found is not None
    return found


def listed(world: World, text: str = "", location: str = LOCATION) -> list[str]:
    tree = read_filter(text, OF_PIPELINES)
    records, _ = PipelineStore(world.database).list_page(PROJECT, location, tree, 100, "")
    return [each.pipeline_id for each in records]


def end(world: World, run_seconds: float = 1000) -> None:
    world.settle()
    world.engine.advance(run_seconds)
    world.settle()


def remove_job(world: World, number: int = 1) -> None:
    job = world.store.get(PROJECT, str(100 + number))
    gone = EndedJob(uid=job.uid, project=PROJECT, job_id=job.spec.job_id)
    for _ in remove_batch(EndedJobs(world.database), world.logs, [gone]):
        pass


def test_a_pipeline_is_as_far_as_its_job(world: World) -> None:
    store_pipeline(world, labels={"team": "a"})
    new = pipeline_of(world)
    world.settle()
    running = pipeline_of(world)

    assert (new.state, new.job_id, new.started_at) == (JobState.QUEUED, "101", None)
    assert new.created_at == new.updated_at == world.store.get(PROJECT, "101").created_at
    job = world.store.get(PROJECT, "101")
    assert (running.state, running.started_at, running.updated_at) == (
        job.state,
        job.preparing_at,
        job.running_at or job.preparing_at,
    )


def test_a_pipeline_that_succeeds_leaves_its_model_and_one_that_fails_none(world: World) -> None:
    store_pipeline(world, 1, has_model=True)
    end(world)
    world.add_image(Behaviour(exit_code=3))
    store_pipeline(world, 2, has_model=True)
    end(world)

    store = ModelStore(world.database)
    model = store.get(PROJECT, "201")

    assert [pipeline_of(world, number).state for number in (1, 2)] == [JobState.SUCCEEDED, JobState.FAILED]
    assert model is not None
    assert (model.pipeline_id, model.location, model.model["displayName"]) == ("1", LOCATION, "a model")
    assert model.created_at == pipeline_of(world, 1).ended_at == world.store.get(PROJECT, "101").ended_at
    assert store.get(PROJECT, "202") is None
    failed = pipeline_of(world, 2)
    assert failed.reason == world.store.get(PROJECT, "102").reason
    assert failed.reason is not None
    assert failed.reason.cause is Cause.PROGRAM_ERROR


def test_a_pipeline_says_how_its_job_ended_when_that_is_gone(world: World) -> None:
    world.add_image(Behaviour(exit_code=3))
    store_pipeline(world)
    end(world)
    before = pipeline_of(world)

    remove_job(world)
    after = pipeline_of(world)

    assert world.store.known([before.job_id]) == set()
    assert after.ended_at is not None
    assert (after.state, after.reason, after.started_at, after.ended_at) == (
        before.state,
        before.reason,
        before.started_at,
        before.ended_at,
    )
    assert after.updated_at == before.updated_at


def test_a_job_that_cannot_be_written_leaves_no_pipeline(world: World) -> None:
    store_pipeline(world, 1)

    with pytest.raises(JobConflict):
        store_pipeline(world, 1)

    with world.database.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(pipelines)) == 1


def test_a_pipeline_whose_id_is_taken_leaves_no_job(world: World) -> None:
    store_pipeline(world, 1)
    taken = store_pipeline(world, 2)
    with writing(world.database).begin() as connection:
        connection.execute(sa.update(pipelines).values(pipeline_id="3").where(pipelines.c.pipeline_id == "1"))

    with pytest.raises(JobConflict):
        store_pipeline(world, 3)

    assert world.store.get(PROJECT, taken.spec.job_id).spec.job_id == "102"
    assert [
        job.spec.job_id
        for job in world.store.list_page(
            PROJECT, dialect=world.dialects["vertex_v1"], filter_text="", page_size=9, page_token=""
        )[0]
    ] == ["102", "101"]


#: Stores pipelines until it is killed.
STORING = """
import sys
from tests.support.fakes.stored_pipelines import store_pipeline
from tests.support.fakes.world import World
from training_service.store.database import open_database

world = World(open_database(sys.argv[1]))
for number in range(1, 100_000):
    store_pipeline(world, number, has_model=True)
    print(number, flush=True)
"""


def test_a_kill_leaves_a_pipeline_with_its_job_or_neither(url: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STORING, url], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as storing:
        assert storing.stdout is not None
        answered = [storing.stdout.readline().strip() for _ in range(30)]
        storing.kill()

    database = open_database(url)
    with database.connect() as connection:
        of_jobs = set(connection.execute(sa.select(jobs.c.uid)).scalars())
        stored = connection.execute(sa.select(pipelines.c.pipeline_id, pipelines.c.job_uid)).all()
    database.dispose()

    assert answered[-1] == "30"
    assert {row.pipeline_id for row in stored} >= set(answered)
    assert sorted(row.job_uid for row in stored) == sorted(of_jobs)


def test_lists_are_filtered(world: World) -> None:
    store_pipeline(world, 1, displayName="my_1", labels={"team": "a"})
    end(world)
    store_pipeline(world, 2, displayName="my_2")
    store_pipeline(world, 3, displayName="other", location="europe-west4")

    assert listed(world) == ["2", "1"]
    assert listed(world, location="europe-west4") == ["3"]
    assert listed(world, 'display_name:"my_*" AND state=PIPELINE_STATE_SUCCEEDED') == ["1"]
    assert listed(world, "state=PIPELINE_STATE_PENDING") == ["2"]
    assert listed(world, "labels.team=a") == listed(world, "labels.team:*") == ["1"]
    assert listed(world, 'NOT display_name="my_1"') == ["2"]
    assert listed(world, 'training_task_definition:"*custom_task*"') == ["2", "1"]
    assert listed(world, 'create_time<"2020-01-01T00:00:00Z"') == []


def test_a_pipeline_runs_from_the_moment_its_job_leaves_the_queue(world: World) -> None:
    store_pipeline(world)
    assert world.store.advance(
        world.store.get(PROJECT, "101"), JobState.PREPARING, at=world.engine.clock(), message="is prepared"
    )

    assert listed(world, "state=PIPELINE_STATE_RUNNING") == ["1"]
    assert listed(world, "state!=PIPELINE_STATE_RUNNING") == []


def test_lists_are_paged_newest_first(world: World) -> None:
    for number in (1, 2, 3):
        store_pipeline(world, number, has_model=True)
        end(world)

    stores: tuple[Any, Any] = (PipelineStore(world.database), ModelStore(world.database))
    for store, first_id in zip(stores, ("pipeline_id", "model_id"), strict=True):
        first, token = store.list_page(PROJECT, LOCATION, None, 2, "")
        rest, end_of_list = store.list_page(PROJECT, LOCATION, None, 2, token)
        assert [int(getattr(each, first_id)) % 100 for each in [*first, *rest]] == [3, 2, 1]
        assert end_of_list == ""
        with pytest.raises(InvalidRequest):
            store.list_page(PROJECT, LOCATION, None, 2, "1-1")


def test_models_are_filtered_and_removed(world: World) -> None:
    store_pipeline(world, has_model=True)
    end(world)
    store = ModelStore(world.database)

    def found(text: str) -> list[str]:
        records, _ = store.list_page(PROJECT, LOCATION, read_filter(text, OF_MODELS), 10, "")
        return [each.model_id for each in records]

    assert found("model=201") == found(f'display_name="{MODEL["displayName"]}"') == ["201"]
    assert found("model!=201") == found("labels.team:*") == []
    assert store.projects() == PipelineStore(world.database).projects() == [PROJECT]
    assert (store.remove(PROJECT, "201"), store.remove(PROJECT, "201")) == (True, False)
    assert pipeline_of(world).model_id == "201"


def test_a_model_that_a_client_uploads_is_there_once(world: World) -> None:
    store, at = ModelStore(world.database), world.engine.clock()
    record = ModelRecord(
        project=PROJECT, location=LOCATION, model_id="mine", pipeline_id="", model=MODEL, created_at=at
    )

    assert (store.add(record), store.add(replace(record, location="europe-west4"))) == (True, False)
    assert store.get(PROJECT, "mine") == record
    assert store.add(replace(record, project="another"))


def test_uploaded_models_of_a_project_are_counted(world: World) -> None:
    store_pipeline(world, has_model=True)
    end(world)
    store, at = ModelStore(world.database), world.engine.clock()
    for project, model_id in ((PROJECT, "one"), (PROJECT, "two"), ("another", "three")):
        assert store.add(
            ModelRecord(
                project=project,
                location=LOCATION,
                model_id=model_id,
                pipeline_id="",
                model=MODEL,
                created_at=at,
            )
        )

    assert (store.count_uploaded(PROJECT), store.count_uploaded("another")) == (2, 1)
    assert store.count_uploaded("nobody") == 0


def test_a_pipeline_that_has_not_ended_is_not_removed(world: World) -> None:
    store_pipeline(world, has_model=True)
    store = PipelineStore(world.database)

    assert not store.remove(PROJECT, "1")
    end(world)
    assert store.remove(PROJECT, "1")

    assert world.store.get(PROJECT, "101").state is JobState.SUCCEEDED
    assert ModelStore(world.database).get(PROJECT, "201") is not None


def test_upkeep_removes_old_pipelines_and_keeps_their_models(world: World) -> None:
    store_pipeline(world, 1, has_model=True)
    end(world)
    store_pipeline(world, 2)
    ended = EndedJobs(world.database)
    old = Choice(ended_before=world.engine.clock() + timedelta(days=1))

    assert ended.count_pipelines(old) == 1
    assert ended.count_pipelines(Choice(ended_before=old.ended_before, project="other")) == 0
    assert ended.count_pipelines(Choice(ended_before=world.engine.clock() - timedelta(days=1))) == 0
    steps = list(remove_jobs(ended, world.logs, old))

    assert ("pipelines", 1) in steps
    assert listed(world) == ["2"]
    assert ModelStore(world.database).get(PROJECT, "201") is not None


def test_a_database_of_version_9_gets_the_tables(url: str) -> None:
    before = World(open_database(url))
    before.add_image()
    before.submit("job")
    with writing(before.database).begin() as connection:
        for table in (pipelines, models):
            table.drop(connection)
        connection.execute(meta.update().where(meta.c.key == "schema_version").values(value="9"))
    before.database.dispose()

    after = World(open_database(url), engine=before.engine)
    store_pipeline(after, has_model=True)
    end(after)

    assert int(read_meta(after.database, "schema_version")) >= 10
    assert (after.state("job"), pipeline_of(after).state) == (JobState.SUCCEEDED, JobState.SUCCEEDED)
    after.database.dispose()
