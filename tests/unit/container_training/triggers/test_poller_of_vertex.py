"""The part of test_poller.py that is about Vertex AI: living jobs are listed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from container_training.triggers.poller import JobNews, JobPoller
from tests.support.fakes.fake_service import PROJECT, error
from tests.support.fakes.fake_vertex import CUSTOM, REGION, TUNING, FakeVertex
from tests.support.fakes.virtual_time import VirtualClock
from training_api.clients.vertex.client import AsyncVertexClient
from training_api.errors import JobNotFound
from training_api.states import JobState
from training_api.vertex_jobs.address import VertexAddress

INTERVAL = 5.0
REGIONS = (REGION, "europe-west4")


@dataclass(frozen=True)
class Address:
    """Leads to a Vertex AI in memory."""

    vertex: FakeVertex
    project: str = PROJECT
    endpoint: str = ""
    min_poll_seconds: float = INTERVAL
    regions: tuple[str, ...] = (REGION,)

    def connect_async(self) -> AsyncVertexClient:
        address = VertexAddress(project=self.project, regions=self.regions)
        return AsyncVertexClient(address, transport=httpx.MockTransport(self.vertex.handle_async))

    def connect(self) -> Any:
        raise AssertionError("the poller is asyncio's")

    connect_ops = connect


@dataclass
class Run:
    """Waits of one poller in virtual time."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    regions: tuple[str, ...] = (REGION,)

    def __post_init__(self) -> None:
        self.vertex = FakeVertex(lambda: self.clock.seconds)
        self.news: dict[str, list[tuple[float, Any]]] = {}

    def wait(self, job_ids: list[str], seconds: float, *acts: tuple[float, Callable[[], Any]]) -> None:
        """Wait for the jobs, for so long; what is heard is in ``news``."""

        async def main() -> None:
            for at, act in acts:
                asyncio.get_running_loop().call_later(at, act)
            poller = JobPoller(Address(self.vertex, regions=self.regions))
            waits = [asyncio.create_task(self._hear(poller, job_id)) for job_id in job_ids]
            await asyncio.sleep(seconds)
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

        self.clock.run(main())

    async def _hear(self, poller: JobPoller, job_id: str) -> None:
        news: JobNews = poller.join(job_id, 1.0)
        heard = self.news.setdefault(job_id, [])
        try:
            while True:
                try:
                    job = await news.next()
                except Exception as caught:
                    heard.append((self.clock.seconds, type(caught)))
                    continue
                heard.append((self.clock.seconds, job.state))
                if job.state is not None and job.state.is_terminal:
                    return
        finally:
            poller.leave(news)
            if poller.is_idle:  # as watch_job does
                await poller.stop()

    def lists(self) -> list[str]:
        """The kinds and regions that were listed, in turn."""
        return [asked.removeprefix("GET ") for asked in self.vertex.asked if asked.endswith("Jobs")]

    def gets(self) -> list[str]:
        """The numbers that were asked for one by one, in turn."""
        return [
            asked.rpartition("/")[2] for asked in self.vertex.asked if "Jobs/" in asked and "GET" in asked
        ]


def test_all_waits_share_one_list_of_each_kind_and_region_an_interval() -> None:
    run = Run(regions=REGIONS)
    numbers = [run.vertex.add(f"job_{place}", "RUNNING", region=REGIONS[place % 2]) for place in range(60)]

    run.wait(numbers, 4.5 * INTERVAL)

    assert run.lists() == [f"{region}/{kind}" for region in REGIONS for kind in (CUSTOM, TUNING)] * 5
    assert run.gets() == []
    assert run.news == {number: [(0.0, JobState.RUNNING)] for number in numbers}


@pytest.mark.extended
def test_five_thousand_waits_are_within_the_quota_of_a_region() -> None:
    run = Run()
    numbers = [run.vertex.add(f"job_{place}", "RUNNING") for place in range(5000)]

    run.wait(numbers, 60.0, (30.0, lambda: run.vertex.move(numbers[17], "SUCCEEDED")))

    # Fifty pages of one kind and one of the other, in turn; and the one that is not listed any more.
    lists = run.lists()
    polls = lists.count(f"{REGION}/{TUNING}")
    assert 5 <= polls <= 7
    assert lists.count(f"{REGION}/{CUSTOM}") == 50 * polls
    assert len(run.vertex.requests) <= 300 + 51
    assert run.gets() == [numbers[17]]
    ((heard_at, state),) = run.news[numbers[17]][1:]
    assert state is JobState.SUCCEEDED
    assert heard_at - 30.0 <= 51 * 0.2


def test_jobs_that_are_not_listed_are_asked_for_at_most_eighty_a_poll() -> None:
    run = Run()
    ended = [run.vertex.add(f"job_{place}", "SUCCEEDED") for place in range(200)]

    run.wait(ended, 100.0)

    heard_at = [run.news[number][0][0] for number in ended]
    assert sorted({moment: heard_at.count(moment) for moment in heard_at}.values()) == [40, 80, 80]
    assert len(run.gets()) == 200
    # 82 calls of a poll cost their share of the quota.
    assert sorted(set(heard_at))[1] == pytest.approx(82 * 0.2)


def test_a_newcomer_is_heard_of_at_once_though_lists_do_not_show_it_yet() -> None:
    run = Run()
    number = run.vertex.add(labels={})  # no list of tasks' jobs has it

    run.wait([number], 2.5 * INTERVAL, (INTERVAL + 1.0, lambda: run.vertex.move(number, "RUNNING")))

    assert run.news[number] == [(0.0, JobState.PREPARING), (2 * INTERVAL, JobState.RUNNING)]


def test_a_job_that_does_not_exist_ends_its_own_wait_only() -> None:
    run = Run()
    number = run.vertex.add()

    run.wait([number, "7"], INTERVAL / 2)

    assert run.news[number] == [(0.0, JobState.PREPARING)]
    assert run.news["7"] == [(0.0, JobNotFound)]


def test_a_wait_may_know_its_job_by_the_id_that_the_task_chose() -> None:
    run = Run()
    number = run.vertex.add("digits_1", "RUNNING")

    run.wait(["digits_1"], 2.5 * INTERVAL, (INTERVAL + 1.0, lambda: run.vertex.move(number, "SUCCEEDED")))

    assert run.news["digits_1"] == [(0.0, JobState.RUNNING), (2 * INTERVAL, JobState.SUCCEEDED)]


def test_a_duplicate_is_cancelled_by_the_first_poll_that_shows_it() -> None:
    run = Run()
    number = run.vertex.add(state="RUNNING")
    others = [run.vertex.add("digits_2", owner="you"), run.vertex.add("digits_3", owner="")]

    run.wait([number], 1.5 * INTERVAL, (1.0, lambda: run.vertex.add(state="RUNNING")))

    *_, duplicate = run.vertex.states()
    assert run.vertex.states() == {
        number: "RUNNING",
        **dict.fromkeys(others, "PENDING"),
        duplicate: "CANCELLED",
    }
    assert run.news[number] == [(0.0, JobState.RUNNING)]


def test_the_next_attempt_of_a_task_is_no_duplicate_where_a_list_is_late() -> None:
    run = Run()
    number = run.vertex.add(state="RUNNING")
    answer: Callable[[httpx.Request], httpx.Response] = run.vertex._answer

    def late(request: httpx.Request) -> httpx.Response:
        """Lists show the first attempt as running when it has failed already."""
        is_list = request.method == "GET" and request.url.path.endswith(CUSTOM)
        job = run.vertex._of_number(number)
        states = [job["state"], "JOB_STATE_RUNNING"]
        if is_list:
            job["state"] = states[1]
        found = answer(request)
        job["state"] = states[0]
        return found

    run.vertex._answer = late  # type: ignore[method-assign]

    def fail() -> None:
        run.vertex.move(number, "FAILED")
        run.vertex.add("digits_1_2")

    run.wait([number], 3.5 * INTERVAL, (1.0, fail))

    assert sorted(run.vertex.states().values()) == ["FAILED", "PENDING"]


@pytest.mark.parametrize("code", [400, 403, 404, 429, 500, 503])
def test_a_cancel_that_fails_is_tried_again_and_holds_up_nobody(code: int) -> None:
    run = Run()
    waited = [run.vertex.add(state="RUNNING"), run.vertex.add("digits_2", owner="you")]
    first, second = run.vertex.add(), run.vertex.add("digits_2", owner="you")
    answer: Callable[[httpx.Request], httpx.Response] = run.vertex._answer
    run.vertex._answer = lambda request: (  # type: ignore[method-assign]
        error(code, "NO", "not this one")
        if request.url.path.endswith(f"{first}:cancel") and run.clock.seconds < 12.0
        else answer(request)
    )

    run.wait(waited, 3.5 * INTERVAL, (1.0, lambda: run.vertex.move(waited[0], "RUNNING")))

    assert run.vertex.states() == {
        waited[0]: "RUNNING",
        waited[1]: "PENDING",
        first: "CANCELLED",
        second: "CANCELLED",
    }
    assert [len(run.news[number]) for number in waited] == [1, 1]


def test_an_end_is_heard_of_though_a_duplicate_cannot_be_cancelled() -> None:
    run = Run()
    number, other = run.vertex.add(state="RUNNING"), run.vertex.add("digits_2", "RUNNING", owner="you")
    run.vertex.add()
    answer: Callable[[httpx.Request], httpx.Response] = run.vertex._answer
    run.vertex._answer = lambda request: (  # type: ignore[method-assign]
        error(503, "UNAVAILABLE", "later") if request.url.path.endswith(":cancel") else answer(request)
    )

    run.wait([number, other], 1.5 * INTERVAL, (1.0, lambda: run.vertex.move(other, "SUCCEEDED")))

    assert run.news[other] == [(0.0, JobState.RUNNING), (INTERVAL, JobState.SUCCEEDED)]
    assert run.news[number] == [(0.0, JobState.RUNNING)]


def test_a_refusal_for_now_is_kept_to() -> None:
    run = Run()
    number = run.vertex.add(state="RUNNING")

    def refuse() -> None:
        run.vertex.faults = [error(429, "RESOURCE_EXHAUSTED", "slow down", **{"Retry-After": "42"})]

    run.wait([number], 49.0, (1.0, refuse))

    assert [moment for moment, _ in run.news[number]] == [0.0, INTERVAL, INTERVAL + 42.0]
    assert run.lists() == [f"{REGION}/{kind}" for kind in (CUSTOM, TUNING)] + [f"{REGION}/{CUSTOM}"] + [
        f"{REGION}/{kind}" for kind in (CUSTOM, TUNING)
    ]


def test_who_may_not_list_asks_for_each_job() -> None:
    run = Run()
    numbers = [run.vertex.add(f"job_{place}", "RUNNING") for place in range(3)]
    run.vertex.faults = [error(403, "PERMISSION_DENIED", "aiplatform.customJobs.list")]

    run.wait(numbers, 1.5 * INTERVAL)

    assert len(run.lists()) == 1
    assert sorted(run.gets()) == sorted(numbers * 2)
