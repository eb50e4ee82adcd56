"""The dashboard's list of jobs, in a real browser, in a real Airflow, with real jobs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from urllib.parse import quote

import httpx
import pytest
from fastapi.routing import APIRoute
from playwright.sync_api import Browser, Page, expect

from container_training.dashboard.app import make_app
from local_stack.parts.airflow import passwords_file
from local_stack.people.airflow_api import AirflowApi
from local_stack.people.airflow_users import ADMIN
from local_stack.people.credentials import airflow_token
from local_stack.settings import Part
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import PATIENCE_SECONDS, Run, wait_until
from tests.e2e.browsing import (
    NARROW,
    Person,
    keep_picture,
    load,
    milliseconds,
    new_context,
    overflow_pixels,
    serious_violations,
)
from tests.support import web
from tests.support.selection import cases
from tests.support.speed import drawn_out, scaled
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, ScaleTier, TrainingInput
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.e2e]

SLEEPS = "import time; time.sleep(900)"
DAG = "train_from_image"
#: The issue's bar is 2 s; a machine that also runs these tests gets twice that, and
#: benchmarks/on_service/dashboard.py the bar itself.
VISIBLE_SECONDS = 4.0


@pytest.fixture
def submit(training: TrainingClient, pushed_image: ImageRef) -> Iterator[Callable[[str, str], str]]:
    """Submit a job that runs a Python program, as the DAG would; cancelled at the end."""
    submitted: list[str] = []

    def submit(job_id: str, program: str) -> str:
        training_input = TrainingInput(
            region="us-central1",
            scale_tier=ScaleTier.CUSTOM,
            master_type="n1-standard-4",
            master_config=ReplicaConfig(
                image_uri=str(pushed_image), container_command=["python3", "-c"], container_args=[program]
            ),
        )
        labels = {"airflow-dag": DAG, "airflow-task": "submit", "team": "browsers"}
        training.create_job(Job(job_id=job_id, labels=labels, training_input=training_input))
        submitted.append(job_id)
        return job_id

    yield submit
    for job_id in submitted:
        training.cancel_job(job_id)


def row(page: Page, job_id: str) -> str:
    """Return how to find the job's row."""
    return f"#rows tr:has(a.job-id:text-is('{job_id}'))"


def expect_state(page: Page, job_id: str, state: str, *, seconds: float = 120) -> None:
    expect(page.locator(f"{row(page, job_id)} .state")).to_have_text(state, timeout=milliseconds(seconds))


def test_nobody_without_a_login_gets_anything(airflow: AirflowApi, stack: LocalStack) -> None:
    routes = [route for route in make_app().routes if isinstance(route, APIRoute)]
    with web.client(
        base_url=f"{stack.settings.airflow_url}/training", timeout=scaled(PATIENCE_SECONDS)
    ) as client:
        for route in routes:
            for method in route.methods:
                answer = client.request(method, re.sub(r"\{[^}]*\}", "x", route.path))
                assert answer.status_code == 401, (method, route.path)


def test_person_logs_in_and_sees_a_job_succeed_without_loading_the_page_again(
    browser: Browser, airflow: AirflowApi, stack: LocalStack, submit: Callable[[str, str], str], job_id: str
) -> None:
    page = new_context(browser, stack.settings.airflow_url).new_page()
    answer = page.goto("/training/jobs")
    assert answer is not None
    assert answer.status == 401
    login = page.get_by_role("link", name="Log in").get_attribute("href")
    assert login is not None
    load(page, login)
    page.fill("input[name=username]", ADMIN)
    page.fill("input[name=password]", password_of_admin(stack))
    page.click("button[type=submit]")
    page.wait_for_url("**/training/jobs")
    expect(page.locator("#live")).to_have_text("Live")
    page.evaluate("window.isTheSamePage = true")

    submit(job_id, f"import time; time.sleep({drawn_out(6)})")

    expect_state(page, job_id, "Running")
    keep_picture(page, "jobs-running")
    expect_state(page, job_id, "Succeeded")
    assert page.evaluate("window.isTheSamePage")
    expect(page.locator(f"{row(page, job_id)} [data-phase=running]")).to_have_text(
        re.compile(r"^\d+(\.\d)? s$")
    )
    expect(page.locator(f"{row(page, job_id)} [data-cost-of]")).to_have_text(re.compile(r"^0\.\d+ EUR$"))
    page.context.close()


def test_change_is_seen_within_seconds(
    admin: Person, training: TrainingClient, submit: Callable[[str, str], str], job_id: str
) -> None:
    submit(job_id, SLEEPS)
    page = admin.open(f"/training/jobs?name={job_id}")
    expect_state(page, job_id, "Running")

    training.cancel_job(job_id)
    wait_until(lambda: training.get_job(job_id).state is JobState.CANCELLED, "the job is cancelled")
    started = time.monotonic()
    expect_state(page, job_id, "Cancelled")

    assert time.monotonic() - started <= scaled(VISIBLE_SECONDS)


def test_admin_cancels_a_job_after_a_question(
    admin: Person, training: TrainingClient, submit: Callable[[str, str], str], job_id: str
) -> None:
    submit(job_id, SLEEPS)
    page = admin.open(f"/training/jobs?name={job_id}")
    expect_state(page, job_id, "Running")
    button = page.get_by_role("button", name=f"Cancel job {job_id}")

    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert serious_violations(page) == []
    keep_picture(page, "cancel-question")
    page.keyboard.press("Enter")  # the button that has the focus keeps the job
    expect(page.get_by_role("dialog")).to_be_hidden()
    button.click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert training.get_job(job_id).state is JobState.RUNNING

    button.click()
    page.get_by_role("button", name="Cancel the job").click()

    expect_state(page, job_id, "Cancelled")
    assert training.get_job(job_id).state is JobState.CANCELLED


def test_viewer_sees_the_job_and_cannot_cancel_it(
    viewer: Person, training: TrainingClient, submit: Callable[[str, str], str], job_id: str
) -> None:
    submit(job_id, SLEEPS)
    page = viewer.open(f"/training/jobs?name={job_id}")
    expect_state(page, job_id, "Running")

    assert page.get_by_role("button", name="Cancel job").count() == 0
    refused = page.evaluate(
        """(path) => fetch(path, { method: "POST", headers: { "X-Training-Action": "1" } })
             .then(async (answer) => [answer.status, (await answer.json()).message])""",
        f"/training/api/jobs/{job_id}/cancel",
    )

    assert refused[0] == 403
    assert "not cancel" in refused[1]
    assert training.get_job(job_id).state is JobState.RUNNING


def test_job_leads_to_its_run_and_the_task_to_its_job(
    admin: Person, start_program: Callable[[str], Run], training: TrainingClient
) -> None:
    run = start_program(SLEEPS)
    run.wait_for_task("wait_until_finished", "deferred")
    job_id = run.xcom("submit")
    in_airflow = f"/dags/{DAG}/runs/{quote(run.run_id, safe='')}"
    page = admin.open("/plugin/training-jobs")
    frame = page.frame_locator("iframe")
    frame.locator("#live:has-text('Live')").wait_for()
    frame.locator("input[name=name]").fill(job_id)
    frame.locator(f"{row(page, job_id)} [data-focus=run]").wait_for()
    page.wait_for_url(f"**/plugin/training-jobs/training/jobs?name={job_id}")
    keep_picture(page, "jobs-in-airflow")

    assert frame.locator(f"{row(page, job_id)} [data-focus=task]").inner_text() == "submit"
    frame.locator(f"{row(page, job_id)} [data-focus=run]").click()
    page.wait_for_url(f"**{in_airflow}*")
    expect(page.get_by_text("wait_until_finished").locator("visible=true").first).to_be_visible()

    for task in ("submit", "wait_until_finished"):
        found = page.request.get(
            "/training/task",
            params={"dag_id": DAG, "run_id": run.run_id, "task_id": task, "map_index": "{MAP_INDEX}"},
            max_redirects=0,
        )
        assert found.headers["location"] == f"/training/jobs/{job_id}?conn_id=training_default"
    training.cancel_job(job_id)
    run.wait_for_end()


def test_filters_are_in_the_address_and_pages_turn(
    admin: Person, submit: Callable[[str, str], str], job_id: str
) -> None:
    submit(job_id, "pass")
    page = admin.open("/training/jobs")
    page.get_by_label("Label").fill("team=browsers")
    page.get_by_label("DAG").fill(DAG)
    page.get_by_text("Succeeded").first.click()
    page.wait_for_url("**/training/jobs?state=SUCCEEDED&dag=train_from_image&label=team%3Dbrowsers")
    expect_state(page, job_id, "Succeeded")

    shared = admin.open(page.url)
    expect_state(shared, job_id, "Succeeded")
    assert shared.get_by_label("Label").input_value() == "team=browsers"
    shared.get_by_text("Failed").first.click()
    shared.get_by_text("Succeeded").first.click()
    expect(shared.locator("#nothing")).to_be_visible()
    shared.get_by_role("button", name="Clear").click()
    expect_state(shared, job_id, "Succeeded")
    assert shared.url.endswith("/training/jobs")


@pytest.mark.parametrize("theme", cases(["light", "dark"], witnesses=["light"]))
def test_page_is_for_everybody(
    admin: Person, submit: Callable[[str, str], str], job_id: str, theme: str
) -> None:
    submit(job_id, SLEEPS)
    page = admin.open("/training/jobs")
    page.evaluate("(theme) => localStorage.setItem('theme', theme)", theme)
    page.reload()
    expect_state(page, job_id, "Running")

    assert page.evaluate("document.documentElement.dataset.theme") == theme
    assert serious_violations(page) == []
    keep_picture(page, f"jobs-{theme}")
    page.set_viewport_size(NARROW)
    wait_until(lambda: overflow_pixels(page) <= 0, "the page fits into its window")
    assert serious_violations(page) == []
    keep_picture(page, f"jobs-{theme}-narrow")


def test_theme_follows_airflows_own_while_it_is_shown(admin: Person) -> None:
    page = admin.open("/plugin/training-jobs")
    frame = page.frame_locator("iframe")
    frame.locator("html[data-theme=light]").wait_for()

    page.evaluate("localStorage.setItem('theme', 'dark')")  # what Airflow's own switch does

    frame.locator("html[data-theme=dark]").wait_for()


def test_keyboard_reaches_everything_in_order(
    admin: Person, submit: Callable[[str, str], str], job_id: str
) -> None:
    submit(job_id, SLEEPS)
    page = admin.open(f"/training/jobs?name={job_id}")
    expect_state(page, job_id, "Running")
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "(document.activeElement.getAttribute('aria-label') ?? document.activeElement.name"
                " ?? document.activeElement.textContent) || document.activeElement.textContent.trim()"
            )
        )

    wanted = [
        "Skip to the content",
        "Jobs",
        "state",
        "name",
        "dag",
        "label",
        "since",
        job_id,
        f"Cancel job {job_id}",
    ]
    places = [reached.index(name) for name in wanted]
    assert places == sorted(places)


def test_no_token_is_in_any_address_or_page(admin: Person, stack: LocalStack) -> None:
    page = admin.open("/training/jobs")
    expect(page.locator("#live")).to_have_text("Live")
    load(page, "/plugin/training-jobs")
    page.frame_locator("iframe").locator("#live:has-text('Live')").wait_for()

    sources = [web.get(url, cookies={"_token": admin.token}).text for url in own(admin)]
    for secret in (admin.token, airflow_token(stack.settings)):
        assert not [url for url in admin.requested if secret in url]
        assert not [source for source in sources if secret in source]
    hosts = {httpx.URL(url).host for url in own(admin)}
    assert hosts == {httpx.URL(admin.base_url).host}


def test_service_that_is_down_is_said_in_plain_words(admin: Person, stack: LocalStack) -> None:
    page = admin.open("/training/jobs")
    expect(page.locator("#live")).to_have_text("Live")

    stack.processes.stop(Part.TRAINING.value)
    try:
        expect(page.locator("#live")).to_have_text("Not live")
        expect(page.locator("#problem")).to_contain_text("did not answer")
        expect(page.locator("#problem")).to_contain_text("Is the training service running")
        keep_picture(page, "service-down")
    finally:
        stack.up([Part.TRAINING])

    expect(page.locator("#live")).to_have_text("Live")
    expect(page.locator("#problem")).to_be_hidden()


def own(person: Person) -> list[str]:
    """Return what was asked of the dashboard itself, but for the stream, which has no end."""
    return [
        url
        for url in person.requested
        if "/training/" in url and "/events" not in url and "/plugin/" not in url
    ]


def password_of_admin(stack: LocalStack) -> str:
    password: str = json.loads(passwords_file(stack.settings).read_text("utf-8"))[ADMIN]
    return password
