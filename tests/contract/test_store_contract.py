"""
What the store does on every database.

They are SQLite, and PostgreSQL with an order of text that is not that of code points.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from container_engines.memory.engine import Behaviour
from tests.support.fakes.older_rows import to_version_8
from tests.support.fakes.studies import Tuning, search
from tests.support.fakes.world import PROJECT, World
from tests.support.side_by_side import SIDE_BY_SIDE, at_once
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.dialects.registry import DIALECTS
from training_api.errors import InvalidFilter, JobConflict
from training_api.fleet.wire import SearchJobsRequest, SpanKind
from training_api.iam.wire import Policy
from training_api.job.tuning.measurement import Report
from training_api.job.tuning.search_terms import Goal
from training_api.states import JobState
from training_service.model.records import JobRecord
from training_service.store.database import open_database, read_meta, writing
from training_service.store.jobs.job_search import JobSearch
from training_service.store.jobs.success_store import SuccessStore
from training_service.store.measurement_store import Measurement
from training_service.store.policy_store import PolicyStore
from training_service.store.span_store import NewSpan
from training_service.store.tables import meta
from training_service.store.upgrade.migrations import SCHEMA_VERSION
from training_service.store.usage_store import UsageSample, UsageStore

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def active(world: World) -> JobRecord:
    return world.store.list_active()[0]


def searched(world: World, filter_text: str = "") -> list[str]:
    found = JobSearch(world.database, world.store.queue_positions, DIALECTS, ML_V1.filter_fields).search(
        PROJECT, SearchJobsRequest(filter=filter_text)
    )
    return [job["jobId"] for job in found["jobs"]]


# The tables


def test_services_that_start_at_once_make_one_database(url: str) -> None:
    opened = at_once(lambda _: open_database(url))

    engines = [one for one in opened if isinstance(one, sa.Engine)]
    ids = {read_meta(engine, "service_id") for engine in engines}
    for engine in engines:
        engine.dispose()
    assert (len(engines), len(ids)) == (SIDE_BY_SIDE, 1), opened


def test_a_database_of_a_newer_service_is_refused_and_left_as_it_is(url: str) -> None:
    database = open_database(url)
    newer = str(SCHEMA_VERSION + 1)
    with writing(database).begin() as connection:
        connection.execute(meta.update().where(meta.c.key == "schema_version").values(value=newer))

    with pytest.raises(ValueError, match=f"schema version {newer}"):
        open_database(url)

    assert read_meta(database, "schema_version") == newer
    database.dispose()


@pytest.mark.postgresql
def test_text_that_was_bounded_is_widened(postgresql: Any) -> None:
    url = postgresql.make_database()
    database = open_database(url)
    with writing(database).begin() as connection:
        connection.exec_driver_sql("ALTER TABLE spans ALTER COLUMN name TYPE VARCHAR(512)")
        connection.exec_driver_sql("ALTER TABLE jobs ALTER COLUMN job_id TYPE VARCHAR(128)")
        connection.execute(meta.update().where(meta.c.key == "schema_version").values(value="5"))
    database.dispose()

    database = open_database(url)

    columns = {
        (table, each["name"]): str(each["type"])
        for table in ("spans", "jobs")
        for each in sa.inspect(database).get_columns(table)
    }
    assert columns["spans", "name"] == columns["jobs", "job_id"] == 'TEXT COLLATE "C"'
    database.dispose()


def test_an_error_does_not_name_what_was_to_be_stored(database: sa.Engine) -> None:
    with database.connect() as connection, pytest.raises(sa.exc.DBAPIError) as caught:
        connection.execute(sa.text("SELECT no_such FROM meta WHERE key = :key"), {"key": "a secret"})

    assert "a secret" not in str(caught.value)


# Jobs


def test_a_job_goes_from_its_creation_to_its_end(world: World) -> None:
    world.submit("job")
    world.settle()
    running = world.state()
    world.engine.advance(60)
    world.settle()

    assert (running, world.state()) == (JobState.RUNNING, JobState.SUCCEEDED)
    assert "Job job is queued." in world.messages()


def test_a_study_goes_to_its_end(database: sa.Engine) -> None:
    tuning = Tuning(World(database, max_replicas=8))
    tuning.submit()
    tuning.run()

    assert tuning.world.state() is JobState.SUCCEEDED


def test_of_creates_of_the_same_id_at_once_one_is_answered(world: World) -> None:
    answers = at_once(lambda _: world.submit("job"))

    assert sum(isinstance(one, Job) for one in answers) == 1
    assert sum(isinstance(one, JobConflict) for one in answers) == SIDE_BY_SIDE - 1
    assert searched(world) == ["job"]


def test_of_two_who_move_a_job_at_once_one_has_moved_it(world: World) -> None:
    world.submit("job")
    record = active(world)

    moved = at_once(lambda _: world.store.advance(record, JobState.PREPARING, at=NOON, message="moved"))

    assert sorted(moved, key=bool) == [False] * (SIDE_BY_SIDE - 1) + [True]


def test_of_labels_written_at_once_one_stays(world: World) -> None:
    world.submit("job")
    record = active(world)

    written = at_once(lambda number: world.store.set_labels(record, {"writer": str(number)}))

    assert written.count(True) == 1
    assert active(world).spec.labels == {"writer": str(written.index(True))}


def test_images_recorded_at_once_are_all_kept(world: World) -> None:
    world.submit("job")
    record = active(world)

    at_once(lambda number: world.store.record_image(record, f"image{number}", f"id{number}"))

    assert active(world).images == {f"image{number}": f"id{number}" for number in range(SIDE_BY_SIDE)}


def test_of_outcomes_decided_at_once_one_stays(world: World) -> None:
    world.submit("job")
    record = active(world)
    outcomes = [JobState.SUCCEEDED, JobState.FAILED]

    decided = at_once(lambda number: world.store.record_outcome(record, outcomes[number % 2]))

    assert decided.count(True) == 1
    assert active(world).outcome is outcomes[decided.index(True) % 2]


def test_of_trials_of_a_number_stored_at_once_one_is(world: World) -> None:
    world.submit("study", hyperparameters=search())
    study = active(world)

    stored = at_once(lambda _: world.add_trial(study, 1, {"lr": "0.1"}))

    assert stored.count(True) == 1
    assert [trial.number for trial in world.trials.summaries([study.uid])] == [1]


def test_an_id_and_a_project_may_be_as_long_as_the_api_allows(world: World) -> None:
    job_id, project = "j" * 128, "p" * 200
    training = TrainingInput(master_config=ReplicaConfig(image_uri="registry.test/project/trainer:1"))

    world.jobs.create(project, Job(job_id=job_id, training_input=training), owner="user:a@example.com")

    assert world.jobs.get(project, job_id).job_id == job_id


def test_text_is_compared_by_code_points(world: World) -> None:
    for job_id in ("a", "B", "a_b", "aB"):
        world.submit(job_id)

    assert sorted(searched(world, 'jobId<"a"')) == ["B"]
    assert sorted(searched(world, 'jobId>"aB"')) == ["a_b"]


def test_labels_are_compared_by_code_points(world: World) -> None:
    for place, value in enumerate(("a-b", "ab", "a_c")):
        world.store.set_labels(_stored(world, f"job{place}"), {"team": value})

    assert sorted(searched(world, 'labels.team<"ab"')) == ["job0", "job2"]


def _stored(world: World, job_id: str) -> JobRecord:
    world.submit(job_id)
    return world.store.get(PROJECT, job_id)


def test_a_filter_with_nul_is_refused(world: World) -> None:
    world.submit("job")

    with pytest.raises(InvalidFilter):
        searched(world, 'jobId="job\x00"')


def test_a_part_is_found_in_both_cases_of_a_to_z_only(world: World) -> None:
    world.submit("job")
    world.store.set_labels(active(world), {"team": "\N{LATIN CAPITAL LETTER A WITH DIAERESIS}RGER"})

    assert searched(world, 'labels.team:"\N{LATIN CAPITAL LETTER A WITH DIAERESIS}rg"') == ["job"]
    assert searched(world, 'labels.team:"\N{LATIN SMALL LETTER A WITH DIAERESIS}rg"') == []


def test_reports_are_the_same_on_every_database(world: World) -> None:
    world.submit("job")
    world.store.set_labels(active(world), {"dag": "d", "model": "m"})
    world.settle()
    world.engine.advance(60)
    world.settle()
    report = JobSearch(
        world.database, world.store.queue_positions, DIALECTS, ML_V1.filter_fields, world.engine.clock
    )

    found = report.search(PROJECT, SearchJobsRequest(changed_after=NOON - timedelta(days=3650)))

    assert (found["total"], found["states"]) == (1, {JobState.SUCCEEDED: 1})
    assert len(SuccessStore(world.database).newest()) == 1
    assert report.oldest_queued() == (0, None)
    assert report.version(PROJECT)


# Migrations


def test_rows_of_version_8_are_the_same_jobs_in_version_9(url: str) -> None:
    before = World(open_database(url), max_replicas=8)
    before.submit(
        "plain", job_dir="gs://bucket/plain", service_account="a@example.com", region="europe-west4"
    )
    before.submit("chief", use_chief_in_tf_config=True)
    study = Tuning(before)
    study.submit("tune", algorithm="GRID_SEARCH", params=PARAMETERS, enable_trial_early_stopping=True)
    before.settle()
    jobs = before.store.list_active()
    shown = [before.get(job_id).to_wire() for job_id in ("plain", "chief", "tune")]
    to_version_8(before.database)
    before.database.dispose()

    after = World(open_database(url), engine=before.engine, max_replicas=8)

    assert after.store.list_active() == jobs
    assert [after.get(job_id).to_wire() for job_id in ("plain", "chief", "tune")] == shown
    assert read_meta(after.database, "schema_version") == str(SCHEMA_VERSION)
    assert {job.spec.job_id for job in jobs if job.trial} == {"tune"}
    after.database.dispose()


def test_a_row_of_version_8_that_cannot_be_converted_stops_no_other(url: str) -> None:
    before = World(open_database(url))
    before.submit("good")
    Tuning(before).submit("broken")
    to_version_8(before.database)
    with writing(before.database).begin() as connection:
        change = """UPDATE jobs SET training_input = '{"hyperparameters": {}}' WHERE job_id = 'broken'"""
        connection.exec_driver_sql(change)
    before.database.dispose()

    after = World(open_database(url), engine=before.engine)
    active = after.store.read_active()

    assert [job.spec.job_id for job in active.jobs] == ["good"]
    (broken,) = active.unreadable
    assert broken.record.spec.job_id == "broken"
    assert broken.why == "its specification cannot be converted: KeyError('params')"
    after.database.dispose()


PARAMETERS = [
    {"parameter_name": "units", "type": "INTEGER", "min_value": 1, "max_value": 3},
    {"parameter_name": "kernel", "type": "CATEGORICAL", "categorical_values": ["a", "b"]},
    {
        "parameter_name": "rate",
        "type": "DISCRETE",
        "discrete_values": [0.5, 2],
        "scale_type": "UNIT_LOG_SCALE",
    },
]


# Policies


def test_of_first_policies_written_at_once_one_stays(database: sa.Engine) -> None:
    policies = PolicyStore(database)

    written = at_once(lambda _: policies.replace("projects/p", Policy(), seen_version=0))

    assert sorted(written, key=bool) == [False] * (SIDE_BY_SIDE - 1) + [True]
    assert policies.get("projects/p").version == 1


def test_of_changes_of_a_policy_at_once_one_stays(database: sa.Engine) -> None:
    policies = PolicyStore(database)
    policies.replace("projects/p", Policy(), seen_version=0)

    written = at_once(lambda _: policies.replace("projects/p", Policy(), seen_version=1))

    assert (written.count(True), policies.get("projects/p").version) == (1, 2)


def test_a_resource_may_have_a_long_name(database: sa.Engine) -> None:
    policies, name = PolicyStore(database), "projects/" + "p" * 2000

    assert policies.replace(name, Policy(), seen_version=0)
    assert policies.get(name).version == 1


# Measurements, spans, use


def test_reports_are_stored_once_and_in_their_order(world: World) -> None:
    world.submit("job")
    uid = active(world).uid
    reports = [
        Measurement(
            job_uid=uid,
            source="s" * 2000,
            sequence=place,
            report=Report(tag=tag, step=place, value=value, reported_us=place),
        )
        for place, (tag, value) in enumerate([("b", 1.0), ("B", math.nan), ("b", math.inf), ("_", -math.inf)])
    ]

    at_once(lambda _: world.measurements.append(reports))

    assert [one.report.value for one in world.measurements.newer(uid, "b", 0, 9)] == [1.0, math.inf]
    assert math.isnan(world.measurements.newer(uid, "B", 0, 9)[0].report.value)
    assert world.measurements.tags(uid) == ("B", "_", "b")
    assert world.measurements.latest([uid], "b")[uid].report.value == math.inf
    assert [one.sequence for one in world.measurements.newest(uid, "s" * 2000, 2)] == [2, 3]
    assert [of for _, of, _ in world.measurements.since({uid: 0})] == [uid] * 4
    assert world.measurements.best([uid], "b", Goal.MAXIMIZE)[uid].report.value == 1.0
    assert world.measurements.best([uid], "b", Goal.MINIMIZE)[uid].report.value == 1.0
    assert world.measurements.best([uid], "B", Goal.MAXIMIZE) == {}


def test_jobs_that_tune_and_those_that_do_not_are_two_lists(world: World) -> None:
    world.submit("plain")
    world.submit("search", hyperparameters=search())

    def listed(tunes: bool | None) -> list[str]:
        found, _ = world.store.list_page(
            PROJECT, dialect=ML_V1, filter_text="", page_size=9, page_token="", tunes=tunes
        )
        return [record.spec.job_id for record in found]

    assert (listed(True), listed(False), listed(None)) == (["search"], ["plain"], ["search", "plain"])


def test_a_span_written_twice_at_once_is_one(world: World) -> None:
    world.submit("job")
    uid, name = active(world).uid, "registry.test/" + "x" * 1000
    span = NewSpan(job_uid=uid, kind=SpanKind.PULL, name=name, started_at=NOON, ended_at=NOON)

    at_once(lambda _: world.spans.put(span))

    assert [each.name for each in world.spans.of_job(uid)] == [name]


def test_use_is_stored_with_and_without_gpus(world: World) -> None:
    world.submit("job")
    uid = active(world).uid
    usage = UsageStore(world.database)
    values: dict[str, Any] = {"job_uid": uid, "task_name": "t", "cpu_cores": 0.5, "memory_bytes": 2**40}

    usage.append(
        [
            UsageSample(sampled_at=NOON, **values),
            UsageSample(sampled_at=NOON + timedelta(seconds=1), gpus=0.5, gpu_memory_bytes=2**35, **values),
        ]
    )

    (series,) = usage.of_job(uid)
    assert (series.memory_bytes, series.gpus) == ([2**40] * 2, [None, 0.5])


def test_a_job_with_characters_that_cannot_be_stored_does_not_stop_the_others(world: World) -> None:
    world.add_image(Behaviour(run_seconds=10**6))
    world.submit("odd", args=["a\x00b"])
    world.submit("plain")
    world.settle()

    assert (world.state("odd"), world.state("plain")) == (JobState.RUNNING, JobState.RUNNING)
