"""One job of an intent, whatever is lost on the way, where the service gives ids by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from container_training.hooks.training import TrainingHook
from tests.support.fakes.fake_service import PROJECT, FakeService, error, make_job
from tests.support.fakes.fake_vertex import REGION, FakeVertex
from tests.support.fakes.submission_tries import FIRST, KEY, LAG, Try
from tests.support.fakes.virtual_time import VirtualClock
from training_api.clients.vertex.client import VertexClient
from training_api.dialects.ml_v1.intent import Intent, owner_labels
from training_api.errors import AccessDenied, JobConflict, Throttled, TransportError
from training_api.vertex_jobs.address import VertexAddress

ELSEWHERE = "europe-west4"
STOCKOUT = f"Resources are insufficient in region: {REGION}. Please try a different region"


class LosingVertex(FakeVertex):
    """
    Loses answers of creates, and lists young jobs late.

    :param losses: for each coming create: ``True``: made, and the answer is lost; ``False``: lost before; an
        answer: nothing is made; ``None``: nothing happens.
    :param lag: for how long a new job is not listed.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        super().__init__(seconds)
        self.losses: list[bool | httpx.Response | None] = []
        self.lag = 0.0
        self.posts: list[float] = []
        self._born: dict[str, float] = {}

    def handle(self, request: httpx.Request) -> httpx.Response:
        is_create = request.method == "POST" and request.url.path.endswith("Jobs")
        loss = self.losses.pop(0) if is_create and self.losses else None
        if isinstance(loss, httpx.Response):
            return loss
        if loss is False:
            raise httpx.ConnectError("refused")
        answer = super().handle(request)
        if is_create:
            self.posts.append(self._seconds())
            self._born[answer.json()["name"]] = self._seconds()
        if loss is True:
            raise httpx.ReadError("connection reset")
        body = json.loads(answer.content)
        for kind in ("customJobs", "hyperparameterTuningJobs"):
            if kind in body:
                body[kind] = [job for job in body[kind] if self._is_listed(job["name"])]
        return httpx.Response(answer.status_code, json=body)

    def _is_listed(self, name: str) -> bool:
        return self._seconds() >= self._born.get(name, float("-inf")) + self.lag


@pytest.fixture
def clock() -> VirtualClock:
    clock = VirtualClock()
    clock.seconds = 1_000.0
    return clock


@pytest.fixture
def vertex(clock: VirtualClock) -> LosingVertex:
    return LosingVertex(lambda: clock.seconds)


@pytest.fixture
def task(vertex: LosingVertex, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> Try:
    connection = {"conn_type": "vertex_training", "extra": {"project": PROJECT}}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
    address = VertexAddress(project=PROJECT, regions=(REGION, ELSEWHERE))
    client = VertexClient(address, list_lag_seconds=LAG, transport=httpx.MockTransport(vertex.handle))
    return Try(client, clock)


def test_the_moment_of_the_create_is_stored_before_it_and_the_number_after_it(
    task: Try, vertex: LosingVertex
) -> None:
    job = task.run()

    assert [(intent.asked_at, intent.known_as) for intent in task.stored] == [
        (1_000.0, ""),
        (1_000.0, job.job_id),
    ]
    assert list(vertex.states()) == [job.job_id]
    assert task.naps == []


@pytest.mark.parametrize("lag", [0.0, 1.0, 30.0, LAG])
def test_a_job_whose_answer_was_lost_is_found_when_lists_show_it(
    task: Try, vertex: LosingVertex, lag: float
) -> None:
    vertex.losses, vertex.lag = [True], lag

    job = task.run()

    assert list(vertex.states()) == [job.job_id]
    assert task.stored[-1].known_as == job.job_id
    assert lag <= sum(task.naps) <= lag + 2.0


def test_a_create_that_did_not_arrive_is_sent_again_once_lists_are_sure(
    task: Try, vertex: LosingVertex
) -> None:
    vertex.losses = [False]

    job = task.run()

    assert list(vertex.states()) == [job.job_id]
    assert vertex.posts == [1_000.0 + LAG]
    assert [intent.asked_at for intent in task.stored] == [1_000.0, 1_000.0 + LAG, 1_000.0 + LAG]


def test_a_job_that_lists_show_too_late_is_cancelled_once_they_do(task: Try, vertex: LosingVertex) -> None:
    vertex.losses, vertex.lag = [True, True], LAG + 1.0

    job = task.run()

    assert len(vertex.states()) == 2
    assert job.job_id is not None
    # The first one is listed by now, and the second one not yet.
    assert sorted(vertex.states().values()) == ["PENDING", "PENDING"]
    task.clock.seconds += LAG
    adopted = task.run(task.stored[-1])
    assert adopted.job_id == job.job_id
    assert {number: state for number, state in vertex.states().items() if state == "PENDING"} == {
        job.job_id: "PENDING"
    }


def test_after_three_lost_answers_the_next_try_of_the_task_goes_on(task: Try, vertex: LosingVertex) -> None:
    vertex.losses = [False] * 3

    with pytest.raises(TransportError):
        task.run()

    assert task.creates == 3
    job = task.run(task.stored[-1])
    assert list(vertex.states()) == [job.job_id]


def test_lists_are_waited_for_from_the_last_call_on_not_from_a_refused_one(
    task: Try, vertex: LosingVertex
) -> None:
    # The service refuses for 50 seconds, and then makes a job and loses its answer.
    refusal = error(429, "RESOURCE_EXHAUSTED", "slow down", **{"Retry-After": "50"})
    vertex.losses, vertex.lag = [refusal, True], LAG

    job = task.run()

    assert list(vertex.states()) == [job.job_id]
    assert [intent.asked_at for intent in task.stored[:2]] == [1_000.0, 1_050.0]


def test_a_slow_call_counts_from_its_end(task: Try, vertex: LosingVertex) -> None:
    vertex.losses, vertex.lag = [True], LAG
    send = vertex._store

    def store_slowly(*arguments: Any) -> str:
        task.clock.seconds += 30.0  # until the client gives up
        return send(*arguments)

    vertex._store = store_slowly  # type: ignore[method-assign, assignment]

    job = task.run()

    assert list(vertex.states()) == [job.job_id]


def test_a_refusal_for_now_makes_no_job_and_is_raised_in_the_end(task: Try, vertex: LosingVertex) -> None:
    vertex.losses = [error(429, "RESOURCE_EXHAUSTED", "slow down", **{"Retry-After": "70"})]

    with pytest.raises(Throttled):
        task.run()

    assert task.naps == []


def test_a_refusal_is_raised_at_once(task: Try, vertex: LosingVertex) -> None:
    vertex.losses = [error(403, "PERMISSION_DENIED", "no")]

    with pytest.raises(AccessDenied):
        task.run()

    assert (task.creates, task.naps) == (1, [])


def test_the_next_try_looks_for_the_job_of_a_killed_one_until_lists_are_sure(
    task: Try, vertex: LosingVertex
) -> None:
    vertex.lag = LAG
    job = task.run()
    killed = Intent(**{**FIRST.to_json(), "asked_at": 1_000.0})  # type: ignore[arg-type]
    task.clock.seconds += 20.0

    assert task.run(killed).job_id == job.job_id
    assert 40.0 <= sum(task.naps) <= 42.0


@pytest.mark.parametrize("skew", [-3_600.0, 3_600.0])
def test_a_clock_that_differs_makes_no_try_wait_longer_than_lists_may_lag(
    task: Try, vertex: LosingVertex, skew: float
) -> None:
    asked = Intent(**{**FIRST.to_json(), "asked_at": task.seconds + skew})  # type: ignore[arg-type]

    task.run(asked)

    assert sum(task.naps) == (LAG if skew > 0 else 0.0)


def test_a_known_number_is_asked_for_first_and_the_name_if_it_is_gone(
    task: Try, vertex: LosingVertex
) -> None:
    job = task.run()
    vertex.requests.clear()
    assert task.run(task.stored[-1]).job_id == job.job_id
    assert vertex.asked[0] == f"GET {REGION}/customJobs/{job.job_id}"

    other = vertex.add(labels=owner_labels(KEY, FIRST))
    vertex.jobs.pop(f"projects/{PROJECT}/locations/{REGION}/customJobs/{job.job_id}")
    assert task.run(task.stored[-1]).job_id == other
    assert task.stored[-1].known_as == other


def test_an_adopted_job_has_no_other_beside_it(task: Try, vertex: LosingVertex) -> None:
    labels = owner_labels(KEY, FIRST)
    first, second = (vertex.add(labels=labels, createTime=f"2026-11-20T08:0{at}:00Z") for at in (1, 2))
    asked = Intent(**{**FIRST.to_json(), "asked_at": 1.0})  # type: ignore[arg-type]

    assert task.run(asked).job_id == first
    assert vertex.states() == {first: "PENDING", second: "CANCELLED"}


@pytest.mark.parametrize("code", [403, 404, 400])
def test_a_duplicate_that_cannot_be_cancelled_does_not_cost_the_task_its_job(
    task: Try, vertex: LosingVertex, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    labels = owner_labels(KEY, FIRST)
    first, second = (vertex.add(labels=labels, createTime=f"2026-11-20T08:0{at}:00Z") for at in (1, 2))
    asked = Intent(**{**FIRST.to_json(), "asked_at": 1.0})  # type: ignore[arg-type]
    answer = vertex._answer
    vertex._answer = lambda request: (  # type: ignore[method-assign]
        error(code, "NO", "not this one") if request.url.path.endswith(":cancel") else answer(request)
    )

    assert task.run(asked).job_id == first
    assert vertex.states()[second] == "PENDING"
    assert f"jobs beside job {first} may be left" in caplog.text


def test_a_job_that_failed_is_followed_by_the_next_attempt(task: Try, vertex: LosingVertex) -> None:
    failed = vertex.add(state="FAILED", labels=owner_labels(KEY, FIRST))

    job = task.run()

    assert vertex.states() == {failed: "FAILED", job.job_id: "PENDING"}
    assert (task.stored[-1].job_id, task.stored[-1].attempt) == ("digits_1_2", 2)


@pytest.mark.parametrize(
    ("message", "tried", "expected"),
    [
        (STOCKOUT, REGION, ELSEWHERE),
        ("Internal error occurred. Please retry in a few minutes.", REGION, ELSEWHERE),
        (STOCKOUT, ELSEWHERE, REGION),
        ("The replica workerpool0-0 exited with a non-zero status of 1.", REGION, REGION),
    ],
)
def test_a_region_without_machines_is_followed_by_the_next_one_that_the_task_names(
    task: Try, vertex: LosingVertex, message: str, tried: str, expected: str
) -> None:
    labels = owner_labels(KEY, FIRST)
    why = {"code": 8, "message": message}
    vertex.add(state="FAILED", labels=labels, region=tried, error=why)

    job = task.run(options={"regions": [REGION, ELSEWHERE]})

    assert job.training_input is not None
    assert job.training_input.region == expected
    assert task.stored[-1].region == expected
    assert len(vertex.posts) == 1


def test_without_a_choice_the_next_attempt_is_where_the_connection_says(
    task: Try, vertex: LosingVertex
) -> None:
    why = {"code": 8, "message": STOCKOUT}
    vertex.add(state="FAILED", labels=owner_labels(KEY, FIRST), error=why)

    job = task.run()

    assert job.training_input is not None
    assert job.training_input.region == REGION


def test_a_try_after_a_killed_one_creates_where_that_one_meant_to_and_finds_it_there(
    task: Try, vertex: LosingVertex
) -> None:
    options = {"regions": [REGION, ELSEWHERE]}
    meant = replace(FIRST, job_id="digits_1_2", attempt=2, region=ELSEWHERE)

    first = task.run(intent=meant, options=options)
    second = task.run(intent=meant, options=options)

    assert first.training_input is not None
    assert first.training_input.region == ELSEWHERE
    assert second.job_id == first.job_id
    assert len(vertex.posts) == 1


def test_an_earlier_job_makes_the_next_attempt_needless(task: Try, vertex: LosingVertex) -> None:
    vertex.add(state="FAILED", labels=owner_labels(KEY, FIRST))
    task.earlier = make_job(job_id="earlier")

    assert task.run().job_id == "earlier"
    assert task.creates == 0


def test_somebody_elses_living_job_of_the_name_is_a_conflict(task: Try, vertex: LosingVertex) -> None:
    vertex.add(owner="you")

    with pytest.raises(JobConflict, match="is taken by a job that this task did not submit"):
        task.run()


@pytest.fixture
def ml_task(service: FakeService) -> Try:
    return Try(TrainingHook().client)


def test_with_unique_ids_a_create_whose_answer_was_lost_is_sent_again(
    ml_task: Try, service: FakeService
) -> None:
    service.lose_next_answer_to_create = True

    job = ml_task.run()

    assert list(service.jobs) == [job.job_id] == ["digits_1"]
    assert ml_task.stored == []


def test_with_unique_ids_a_taken_one_that_cannot_be_read_is_an_error(
    ml_task: Try, service: FakeService
) -> None:
    service.faults = [
        error(404, "NOT_FOUND", "no"),
        error(409, "ALREADY_EXISTS", "taken"),
    ] * 3

    with pytest.raises(JobConflict, match="no job with this id can be read"):
        ml_task.run()
