"""Many waits, one poller: what it asks, whom it tells, and when it ends."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import httpx
import pytest

from container_training.hooks.service_address import ServiceAddress
from container_training.hooks.training import TrainingHook
from container_training.triggers import poller as pollers
from container_training.triggers.poller import JobPoller, watch_job
from container_training.triggers.training import JobTrigger
from tests.support.fakes.fake_service import EPOCH, PROJECT, FakeService, error, make_job
from tests.support.fakes.virtual_time import VirtualClock
from tests.unit.container_training.triggers.test_training import ARGUMENTS, times_of
from training_api.errors import JobNotFound
from training_api.states import JobState

ADDRESS = ServiceAddress(endpoint="http://training.test:8470", project=PROJECT)


def add_jobs(service: FakeService, count: int, state: JobState = JobState.QUEUED) -> list[str]:
    names = [f"job_{place:04d}" for place in range(count)]
    for name in names:
        service.add(make_job(job_id=name, state=state))
    return names


def end(service: FakeService, name: str, clock: VirtualClock) -> None:
    service.add(make_job(job_id=name, state=JobState.SUCCEEDED, end_time=clock.time))


async def wait_for(clock: VirtualClock, **changes: Any) -> dict[str, Any]:
    arguments = {**ARGUMENTS, "stream_logs": False, **changes}
    trigger = JobTrigger(**arguments)
    trigger.now = clock.now
    (event,) = [event.payload async for event in trigger.run()]
    return event  # type: ignore[no-any-return]


async def wait_for_all(
    clock: VirtualClock, names: Sequence[str], **changes: Any
) -> dict[str, tuple[float, dict[str, Any]]]:
    """Return when each wait ended, and how."""
    ends = {}

    async def one(name: str) -> None:
        event = await wait_for(clock, job_id=name, **changes)
        ends[name] = (clock.seconds, event)

    await asyncio.gather(*map(one, names))
    return ends


def test_hundreds_of_waits_are_one_list_call_an_interval(service: FakeService) -> None:
    names = add_jobs(service, 400)
    clock = VirtualClock(*([lambda: None] * 19), lambda: [end(service, name, clock) for name in names[:50]])

    async def main() -> dict[str, tuple[float, dict[str, Any]]]:
        ends = asyncio.create_task(wait_for_all(clock, names[:50]))
        others = asyncio.create_task(wait_for_all(clock, names[50:]))
        await asyncio.sleep(1.5)
        service.requests.clear()
        found = await ends
        others.cancel()
        return found

    found = clock.run(main())

    assert {event["state"] for _, event in found.values()} == {"SUCCEEDED"}
    # They ended at 19.5, and at 20 somebody looked.
    assert {seconds for seconds, _ in found.values()} == {20.0}
    assert service.requests == [("GET", f"/v1/projects/{PROJECT}/jobs")] * 19


def test_a_burst_of_changes_is_read_page_by_page_and_followed_by_a_longer_pause(service: FakeService) -> None:
    names = add_jobs(service, 270)
    clock = VirtualClock(*([lambda: None] * 5), lambda: [end(service, name, clock) for name in names[:250]])
    times = times_of(service, clock)

    async def main() -> None:
        kept = asyncio.create_task(wait_for_all(clock, names[250:]))
        await wait_for_all(clock, names[:250])
        await asyncio.sleep(30)
        kept.cancel()

    clock.run(main())

    looks = {moment: times.count(moment) for moment in times}
    assert looks[6.0] == 3
    assert next(moment for moment in sorted(looks) if moment > 6.0) == 9.0
    # Later the burst is behind the time that is asked for.
    assert {looks[moment] for moment in looks if moment > 20.0} == {1}


def test_a_change_that_the_times_do_not_show_is_found_all_the_same(service: FakeService) -> None:
    names = add_jobs(service, 300)
    # The service was down when the job ended, and writes the end with the time that it had.
    late = make_job(job_id=names[123], state=JobState.SUCCEEDED, end_time=EPOCH - timedelta(hours=1))
    clock = VirtualClock(*([lambda: None] * 9), lambda: service.add(late))

    async def main() -> float:
        others = asyncio.create_task(wait_for_all(clock, names[:123] + names[124:]))
        await wait_for(clock, job_id=names[123])
        others.cancel()
        return clock.seconds

    assert 9.5 < clock.run(main()) < 20.0


def test_an_outage_ends_no_wait_and_each_says_so_once(service: FakeService, log_lines: Sequence[str]) -> None:
    names = add_jobs(service, 5, JobState.RUNNING)
    clock = VirtualClock()

    def go_down() -> None:
        service.faults = [httpx.ConnectError("refused")] * 3 + [error(502, "UNAVAILABLE", "proxy")]

    async def main() -> dict[str, tuple[float, dict[str, Any]]]:
        asyncio.get_running_loop().call_later(2.5, go_down)
        asyncio.get_running_loop().call_later(60.5, lambda: [end(service, name, clock) for name in names])
        return await wait_for_all(clock, names)

    found = clock.run(main())

    assert {event["outcome"] for _, event in found.values()} == {"REACHED"}
    assert len([line for line in log_lines if "still waiting, until" in line]) == 5
    assert len([line for line in log_lines if "answers again, after" in line]) == 5


def test_a_job_that_does_not_exist_ends_its_own_wait_only(service: FakeService) -> None:
    add_jobs(service, 1, JobState.RUNNING)
    clock = VirtualClock(lambda: None, lambda: end(service, "job_0000", clock))

    found = clock.run(wait_for_all(clock, ["job_0000", "nobody"]))

    assert (found["nobody"][1]["outcome"], found["nobody"][1]["error"]) == ("REFUSED", "JobNotFound")
    assert found["job_0000"][1]["state"] == "SUCCEEDED"


def test_who_may_not_list_asks_for_each_job(service: FakeService) -> None:
    names = add_jobs(service, 3, JobState.RUNNING)
    service.faults = [error(403, "PERMISSION_DENIED", "ml.jobs.list")]
    clock = VirtualClock(lambda: None, lambda: [end(service, name, clock) for name in names])

    found = clock.run(wait_for_all(clock, names))

    assert [event["state"] for _, event in found.values()] == ["SUCCEEDED"] * 3
    assert service.count("GET", "/jobs") == 1
    assert all(service.count("GET", f"/{name}") >= 2 for name in names)


def test_one_poller_serves_all_waits_of_a_service_and_ends_with_the_last(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[JobPoller] = []

    class Counted(JobPoller):
        def __init__(self, address: ServiceAddress) -> None:
            made.append(self)
            super().__init__(address)

    monkeypatch.setattr(pollers, "JobPoller", Counted)
    names = add_jobs(service, 20, JobState.RUNNING)
    clock = VirtualClock(lambda: None, lambda: [end(service, name, clock) for name in names])
    threads = set(threading.enumerate())

    async def main() -> set[str]:
        await wait_for_all(clock, names)
        await asyncio.sleep(1.0)
        return {task.get_name() for task in asyncio.all_tasks()} - {asyncio.current_task().get_name()}  # type: ignore[union-attr]

    left = clock.run(main())
    service.requests.clear()

    assert len(made) == 1
    assert left == set()
    assert service.requests == []
    assert set(threading.enumerate()) <= threads
    assert pollers._pollers == {}


def test_a_later_wait_is_looked_at_within_its_interval_though_the_others_are_quiet(
    service: FakeService,
) -> None:
    names = add_jobs(service, 3, JobState.RUNNING)
    clock = VirtualClock()

    async def main() -> float:
        quiet = asyncio.create_task(wait_for_all(clock, names))
        await asyncio.sleep(2000.25)  # looks are ten seconds apart by now
        service.add(make_job(job_id="late", state=JobState.PREPARING))
        ends_in = 5.0
        asyncio.get_running_loop().call_later(ends_in, service.move, "late", JobState.SUCCEEDED)
        began = clock.seconds
        await wait_for(clock, job_id="late", deadline_at=(EPOCH + timedelta(hours=2)).isoformat())
        quiet.cancel()
        return clock.seconds - began - ends_in

    assert clock.run(main()) <= 1.0


def test_a_bug_in_the_poller_is_no_endless_wait(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_jobs(service, 1, JobState.RUNNING)
    clock = VirtualClock()

    def broken(*_: object) -> float:
        raise ZeroDivisionError("a bug")

    async def main() -> None:
        async with watch_job(ADDRESS, "job_0000", 1.0) as news:
            await news.next()
            monkeypatch.setattr(news.poller._roster, "question", broken)
            with pytest.raises(ZeroDivisionError):
                await news.next()
            assert news.poller.has_ended
            async with watch_job(ADDRESS, "job_0000", 1.0) as fresh:
                assert (await fresh.next()).state is JobState.RUNNING

    clock.run(main())


def test_news_of_a_slow_wait_are_the_newest_only(service: FakeService) -> None:
    add_jobs(service, 1)
    clock = VirtualClock(
        lambda: service.move("job_0000", JobState.PREPARING),
        lambda: service.move("job_0000", JobState.RUNNING),
    )

    async def main() -> list[Any]:
        async with watch_job(ADDRESS, "job_0000", 1.0) as news:
            first = await news.next()
            await asyncio.sleep(5)
            return [first.state, (await news.next()).state]

    assert clock.run(main()) == [JobState.QUEUED, JobState.RUNNING]


def test_the_logs_of_many_running_jobs_are_read_in_turns(service: FakeService) -> None:
    names = add_jobs(service, 200, JobState.RUNNING)
    clock = VirtualClock()

    async def main() -> int:
        waits = asyncio.create_task(wait_for_all(clock, names, stream_logs=True))
        await asyncio.sleep(10.25)
        before = service.count("POST", "/v2/entries:list")
        await asyncio.sleep(20)
        waits.cancel()
        return service.count("POST", "/v2/entries:list") - before

    # Fifty pages a second, however many wait.
    assert 900 <= clock.run(main()) <= 1100


def test_the_connection_sets_the_shortest_pause(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"project": PROJECT, "min_poll_seconds": 7}
    connection = {"conn_type": "container_training", "host": "training.test", "port": 8470, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
    add_jobs(service, 1, JobState.PREPARING)
    clock = VirtualClock()
    times = times_of(service, clock)

    async def main() -> None:
        wait = asyncio.create_task(wait_for(clock, job_id="job_0000"))
        await asyncio.sleep(22)
        wait.cancel()

    clock.run(main())

    assert times == [0.0, 7.0, 14.0, 21.0]


@pytest.mark.parametrize("value", ["soon", -1, "nan"])
def test_a_shortest_pause_that_is_none_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    extra = {"project": PROJECT, "min_poll_seconds": value}
    connection = {"conn_type": "container_training", "host": "training.test", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))

    with pytest.raises(Exception, match=r"extra\.min_poll_seconds: it must be a number of seconds >= 0"):
        asyncio.run(TrainingHook().aget_service())


def test_a_missing_job_is_an_error_of_its_own_kind(service: FakeService) -> None:
    async def main() -> None:
        async with watch_job(ADDRESS, "nobody", 1.0) as news:
            with pytest.raises(JobNotFound):
                await news.next()

    VirtualClock().run(main())


def test_the_token_of_an_address_is_not_shown() -> None:
    assert "secret" not in repr(ServiceAddress(endpoint="http://h", project="p", token="secret"))
