"""What those who watch the service ask: room, queue, and what replicas may use."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from container_engines.memory.engine import Behaviour
from tests.support.fakes.studies import Tuning, report
from tests.support.fakes.world import PROJECT, World
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.registry import DIALECTS
from training_api.errors import EngineUnavailable, JobNotFound
from training_api.fleet.wire import FleetResponse, MeasurementsRequest, SearchJobsRequest
from training_api.job.capacity import Capacity
from training_api.job.dialect import Dialects
from training_service.model.host_capacity import HostCapacity
from training_service.store.jobs.job_search import JobSearch
from training_service.store.usage_store import UsageStore
from training_service.use_cases.curve_book import CurveBook
from training_service.use_cases.fleet_reports import Reports
from training_service.use_cases.history_book import HistoryBook


@dataclass
class Room:
    """The room of the machine; nobody knows it while the engine is away."""

    ask: Callable[[], Capacity]
    is_known: bool = True

    def __call__(self) -> Capacity:
        if not self.is_known:
            raise EngineUnavailable("gone")
        return self.ask()


@pytest.fixture
def room(world: World) -> Room:
    host = HostCapacity(world.engine, overcommit=1000, max_replicas=8)
    return Room(lambda: host.capacity)


@pytest.fixture
def reports(world: World, room: Room) -> Reports:
    return reports_of(world, room)


def reports_of(world: World, room: Room, dialects: Dialects = DIALECTS) -> Reports:
    return Reports(
        jobs=world.store,
        search=JobSearch(world.database, world.store.queue_positions, DIALECTS, ML_V1.filter_fields),
        spans=world.spans,
        usage=UsageStore(world.database),
        curves=CurveBook(world.measurements),
        histories=HistoryBook(world.database, room, world.engine.clock),
        measurements=world.measurements,
        dialects=dialects,
        capacity=room,
        hold=lambda: world.disk_problem,
    )


def run(world: World, job_id: str) -> None:
    world.add_image(Behaviour(run_seconds=60))
    world.submit(job_id)
    world.settle()


def test_what_is_promised_is_that_of_jobs_that_have_begun(world: World, reports: Reports) -> None:
    run(world, "runs")
    before = reports.fleet()
    world.submit("waits")

    after = reports.fleet()

    assert before.used is not None
    assert (before.used.replicas, before.queue_length) == (1, 0)
    assert before.used.cpus > 0
    assert after.used == before.used
    assert (after.queue_length, after.oldest_queued_time) == (1, world.get("waits").create_time)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_disk_that_holds_jobs_is_told(world: World, room: Room, reports: Reports, is_known: bool) -> None:
    room.is_known = is_known
    before = reports.fleet().hold
    world.disk_problem = "the disk is full"

    assert (before, reports.fleet().hold) == ("", "the disk is full")


def test_an_empty_service_has_promised_nothing(reports: Reports) -> None:
    fleet = reports.fleet()

    assert fleet.used is not None
    assert fleet.capacity is not None
    assert fleet.largest is not None
    assert (fleet.used.cpus, fleet.used.replicas, fleet.capacity.replicas) == (0, 0, 8)
    assert fleet.largest.replicas == 1


def test_the_queue_is_that_of_the_project(world: World, reports: Reports) -> None:
    world.submit()

    assert reports.fleet(PROJECT).queue_length == 1
    assert reports.fleet("other").queue_length == 0
    assert reports.fleet().queue_length == 1


def test_while_the_engine_is_away_the_queue_is_still_known(
    world: World, reports: Reports, room: Room
) -> None:
    world.submit()
    room.is_known = False

    assert reports.fleet() == FleetResponse(queue_length=1, oldest_queued_time=world.get().create_time)


def test_a_version_is_another_one_after_each_change(world: World, reports: Reports) -> None:
    versions = [reports.version(PROJECT).version]
    world.submit()
    versions.append(reports.version(PROJECT).version)
    world.jobs.cancel(PROJECT, "job")
    versions.append(reports.version(PROJECT).version)

    assert len(set(versions)) == 3
    assert reports.version(PROJECT).version == versions[-1]


@pytest.mark.parametrize("what", ["timeline", "usage", "curves"])
def test_of_a_job_that_there_is_not_nothing_is_told(reports: Reports, what: str) -> None:
    with pytest.raises(JobNotFound):
        getattr(reports, what)(PROJECT, "absent")


def test_the_timeline_of_a_job_has_its_pull_and_its_replica(world: World, reports: Reports) -> None:
    run(world, "job")

    spans = reports.timeline(PROJECT, "job").spans

    assert "master-replica-0" in [span.name for span in spans]
    assert reports.search(PROJECT, SearchJobsRequest())["total"] == 1


def test_replicas_are_called_as_their_own_log_calls_them(world: World, room: Room) -> None:
    run(world, "job")
    named = {"ml_v1": replace(ML_V1, task_name=lambda replica: f"workerpool0-{replica.index}")}
    reports = reports_of(world, room, named)

    assert "workerpool0-0" in [span.name for span in reports.timeline(PROJECT, "job").spans]
    assert reports_of(world, room, {}).timeline(PROJECT, "job").spans != []


def test_pages_have_every_measurement_of_a_trial(tuning: Tuning, room: Room) -> None:
    world = tuning.world
    reports = reports_of(world, room)
    tuning.submit(max_trials=1, max_parallel_trials=1)
    world.settle()
    (trial,) = [job for job in world.store.list_active() if job.trial]
    values = [math.nan, *(float(place) for place in range(1, 250))]
    report(world, trial.uid, values)

    steps: list[int] = []
    found: list[float | None] = []
    asked, pages = MeasurementsRequest(trial_id="1", page_size=100), 0
    while True:
        page = reports.measurements(PROJECT, "job", asked)
        steps, found, pages = steps + page.steps, found + page.values, pages + 1
        if not page.next_page_token:
            break
        asked = asked.model_copy(update={"page_token": page.next_page_token})

    assert (steps, found, pages) == ([*range(250)], [None, *values[1:]], 3)
    assert reports.measurements(PROJECT, "job", MeasurementsRequest(trial_id="1", tag="other")).steps == []


def test_measurements_of_a_trial_that_is_not_there(tuning: Tuning, room: Room) -> None:
    tuning.submit()

    with pytest.raises(JobNotFound, match="job 'job' has no trial '9'"):
        reports_of(tuning.world, room).measurements(PROJECT, "job", MeasurementsRequest(trial_id="9"))
