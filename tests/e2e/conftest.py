"""The whole stack, Airflow included, once a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser

from local_stack.parts.airflow import airflow_state, passwords_file
from local_stack.people.airflow_api import AirflowApi
from local_stack.people.airflow_users import ADMIN, ORPHAN_FINDER
from local_stack.settings import Part
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run
from tests.e2e.browsing import Person, chromium
from tests.support.bed.real_parts import end_all_jobs
from tests.support.kept_logs import logs_in
from tests.support.speed import scaled
from training_api.clients.training import TrainingClient
from training_api.job.image_ref import ImageRef


@pytest.fixture(scope="session")
def airflow(stack: LocalStack) -> Iterator[AirflowApi]:
    """Airflow beside the session's stack, with all DAGs awake."""
    stack.up([Part.DATABASE, Part.AIRFLOW])
    with (
        AirflowApi(
            stack.settings.airflow_url, ADMIN, passwords_file(stack.settings), timeout_seconds=scaled(60)
        ) as api,
        logs_in(airflow_state(stack.settings) / "logs", "its Airflow's tasks"),
    ):
        yield api


@pytest.fixture(scope="module")
def guarded(stack: LocalStack, airflow: AirflowApi) -> Iterator[LocalStack]:
    """The session's stack, whose service wants tokens while a module's tests run."""
    guarded = LocalStack(stack.settings.model_copy(update={"require_auth": True}))
    guarded.up([Part.TRAINING])
    yield guarded
    stack.up([Part.TRAINING])


@pytest.fixture
def start_program(
    airflow: AirflowApi, pushed_image: ImageRef, training: TrainingClient
) -> Iterator[Callable[[str], Run]]:
    """
    Start a run of ``train_from_image`` whose job is a Python program.

    No job is left at the end, however the test went: one that stays would take the room that the next test's
    needs.
    """

    def start(program: str) -> Run:
        conf = {"image": str(pushed_image), "args": f'python3 -c "{program}"'}
        return Run.start(airflow, "train_from_image", conf)

    yield start
    end_all_jobs(training)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser, without anybody who is logged in."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def admin(browser: Browser, airflow: AirflowApi, stack: LocalStack) -> Iterator[Person]:
    """Somebody who may do everything; no page of theirs may have had an error."""
    yield from person(browser, stack, ADMIN)


@pytest.fixture
def viewer(browser: Browser, airflow: AirflowApi, stack: LocalStack) -> Iterator[Person]:
    """Somebody who may only look."""
    yield from person(browser, stack, ORPHAN_FINDER)


def person(browser: Browser, stack: LocalStack, user: str) -> Iterator[Person]:
    """Log in and out again."""
    someone = Person(browser, stack.settings, user)
    yield someone
    someone.context.close()
    assert someone.errors == []
