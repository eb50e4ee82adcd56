"""A task that is retried, dies or is killed stands for one job, its own or an earlier one."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from container_training.runtime import killing
from container_training.runtime.killing import TaskFate
from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.fake_service import FakeService
from tests.unit.container_training.operators.conftest import finish, make_operator, new_run
from training_api.states import JobState

pytestmark = pytest.mark.usefixtures("data")


def test_two_runs_at_the_same_time_both_train(service: FakeService, context: Any) -> None:
    assert make_operator().execute(new_run(context)) != make_operator().execute(new_run(context))


def test_a_retry_of_a_task_that_reused_does_the_same(
    service: FakeService, context: Any, earlier: str
) -> None:
    run = new_run(context)

    assert [make_operator().execute(run) for _ in range(3)] == [earlier] * 3
    assert service.count("POST", "/jobs") == 1


def test_a_task_with_a_job_of_its_own_keeps_to_it_whatever_ended_since(
    service: FakeService, bucket: FakeBucket, context: Any
) -> None:
    mine, other = new_run(context), new_run(context)
    own = make_operator().execute(mine)
    finish(service, bucket, make_operator().execute(other))

    assert make_operator().execute(mine) == own
    assert mine["ti"].pushed["reused"] is False


def test_after_an_own_job_that_failed_an_earlier_one_will_do(
    service: FakeService, bucket: FakeBucket, context: Any
) -> None:
    mine, other = new_run(context), new_run(context)
    own = make_operator().execute(mine)
    theirs = make_operator().execute(other)
    service.move(own, JobState.FAILED)
    finish(service, bucket, theirs)

    assert make_operator().execute(mine) == theirs
    assert mine["ti"].pushed["reused"] is True


@pytest.mark.parametrize("request_number", range(1, 5))
def test_a_task_that_dies_at_any_request_stands_for_one_job(
    service: FakeService, bucket: FakeBucket, context: Any, request_number: int
) -> None:
    mine, other = new_run(context), new_run(context)
    theirs = make_operator().execute(other)
    service.requests.clear()

    def die() -> None:
        if len(service.requests) == request_number:
            raise SystemExit

    service.on_request = die
    with contextlib.suppress(SystemExit):
        make_operator().execute(mine)
    service.on_request = lambda: None
    finish(service, bucket, theirs)  # meanwhile

    job_id = make_operator().execute(mine)

    own = [job for job in service.jobs if job != theirs]
    assert own in ([], [job_id])
    assert own or job_id == theirs


def test_without_a_state_store_a_job_of_ones_own_comes_first(
    service: FakeService, bucket: FakeBucket, context: Any, earlier: str
) -> None:
    run = new_run(context)
    del run["task_state_store"]
    own = make_operator(args=["--new"]).execute(run)
    other = make_operator(args=["--new"], reuse_results=False).execute(new_run(context))
    finish(service, bucket, other)

    assert make_operator(args=["--new"]).execute(run) == own


@pytest.mark.parametrize("fate", list(TaskFate))
def test_a_kill_never_touches_the_earlier_job(
    service: FakeService, context: Any, earlier: str, monkeypatch: pytest.MonkeyPatch, fate: TaskFate
) -> None:
    monkeypatch.setattr(killing, "fate_of", lambda _: fate)
    operator = make_operator()
    service.on_request = operator.on_kill  # before, between and after all that it asks

    assert operator.execute(new_run(context)) == earlier
    operator.on_kill()

    assert service.jobs[earlier].state is JobState.SUCCEEDED
    assert not any(path.endswith(":cancel") for _, path in service.requests)
