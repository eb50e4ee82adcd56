"""The page of one job, in a real browser, in a real Airflow, with real jobs."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from container_training.work.object_store import ObjectStore
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import wait_until
from tests.e2e.browsing import (
    NARROW,
    Person,
    keep_picture,
    milliseconds,
    overflow_pixels,
    serious_violations,
)
from tests.support import web
from tests.support.selection import cases
from tests.support.speed import scaled
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import (
    Goal,
    HyperparameterSpec,
    Job,
    ParameterSpec,
    ParameterType,
    ReplicaConfig,
    ScaleTier,
    TrainingInput,
)
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = [pytest.mark.usefixtures("guarded"), pytest.mark.docker, pytest.mark.e2e]

#: Writes lines and reports a metric as cloudml-hypertune does, which the base image lacks; then fails.
TALKS = """
import fcntl, json, os, sys, time
for step in range(1, STEPS + 1):
    print(f"epoch {step} of {STEPS}", flush=True)
    report = {"timestamp": time.time(), "trial": "0", "accuracy": str(1 - 1 / step), "global_step": str(step), "checkpoint_path": ""}
    with open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(report, sort_keys=True) + chr(10))
    time.sleep(PAUSE)
print("ValueError: could not broadcast input array", file=sys.stderr, flush=True)
sys.exit(STATUS)
"""
FAILS_WITH = 3


STUDY = HyperparameterSpec(
    goal=Goal.MAXIMIZE,
    hyperparameter_metric_tag="accuracy",
    max_trials=3,
    max_parallel_trials=3,
    params=[ParameterSpec(parameter_name="units", type=ParameterType.INTEGER, min_value=1, max_value=64)],
)


def talks(steps: int, status: int) -> str:
    """Return the program; it writes slowly enough for a page to see it at work on this machine."""
    return (
        TALKS.replace("STEPS", str(steps)).replace("PAUSE", str(scaled(0.5))).replace("STATUS", str(status))
    )


@pytest.fixture
def submit(training: TrainingClient, pushed_image: ImageRef) -> Iterator[Callable[..., str]]:
    """Submit a job that runs a Python program; cancelled at the end."""
    submitted: list[str] = []

    def submit(program: str, **changes: Any) -> str:
        job_id = f"page_{uuid.uuid4().hex[:12]}"
        config = ReplicaConfig(
            image_uri=str(pushed_image), container_command=["python3", "-c"], container_args=[program]
        )
        values: dict[str, Any] = {
            "region": "us-central1",
            "scale_tier": ScaleTier.CUSTOM,
            "master_type": "n1-standard-4",
            "master_config": config,
        }
        labels = {"airflow-dag": "train_from_image", "airflow-task": "submit"}
        training.create_job(
            Job(job_id=job_id, labels=labels, training_input=TrainingInput(**values | changes))
        )
        submitted.append(job_id)
        return job_id

    yield submit
    for job_id in submitted:
        training.cancel_job(job_id)


def open_job(person: Person, job_id: str, state: str) -> Page:
    page = person.open(f"/training/jobs/{job_id}")
    expect_state(page, state)
    return page


def expect_state(page: Page, state: str) -> None:
    """Wait until the job is in ``state``; it may have to wait for those of other tests."""
    expect(page.locator("#state .state")).to_have_text(state, timeout=milliseconds(120))


def test_job_that_runs_is_followed_to_its_failure_and_the_page_says_why(
    admin: Person, submit: Callable[..., str], tmp_path: Path
) -> None:
    job_id = submit(talks(24, FAILS_WITH))
    page = open_job(admin, job_id, "Running")
    page.evaluate("window.isTheSamePage = true")
    expect(page.locator("#log-lines")).to_contain_text("epoch 2 of 24")
    expect(page.locator("#curves canvas")).to_be_visible()
    expect(page.locator(".gantt [data-kind=live]").first).to_be_visible()
    expect(page.locator("#log-lines")).to_contain_text("epoch 16 of 24")
    keep_picture(page, "job-running")

    expect_state(page, "Failed")
    assert page.evaluate("window.isTheSamePage")
    expect(page.locator("#why-title")).to_have_text("The trainer failed")
    expect(page.locator("#why-text")).to_contain_text(f"the status {FAILS_WITH}")
    expect(page.locator("#log-lines")).to_contain_text("epoch 24 of 24")
    expect(page.locator(".gantt [data-kind=bad]")).to_be_visible()
    expect(page.locator("#usage-table")).to_contain_text("master-replica-0")
    assert serious_violations(page) == []
    keep_picture(page, "job-failed")

    page.locator("#log-form input[name=search]").fill("EPOCH 7 of")
    expect(page.locator("#log-count")).to_have_text("1 matching line")
    expect(page.locator("#log-lines mark")).to_have_text("epoch 7 of")
    page.locator("#log-form input[name=search]").fill("")
    expect(page.locator("#log-lines")).to_contain_text("could not broadcast")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    kept = tmp_path / download.value.suggested_filename
    download.value.save_as(kept)
    assert kept.name == f"{job_id}.log"
    assert len(re.findall(r"master-replica-0: epoch \d+ of 24\n", kept.read_text("utf-8"))) == 24


@pytest.mark.parametrize("theme", cases(["light", "dark"], witnesses=["light"]))
def test_study_has_a_table_to_sort_and_plots(admin: Person, submit: Callable[..., str], theme: str) -> None:
    job_id = submit(talks(4, 0), hyperparameters=STUDY)
    page = admin.open(f"/training/jobs/{job_id}")
    page.evaluate("(theme) => localStorage.setItem('theme', theme)", theme)
    page.reload()
    expect_state(page, "Succeeded")
    expect(page.locator("#trials-table tbody tr")).to_have_count(3)

    page.get_by_role("button", name="units").click()
    column = page.locator("#trials-table th[aria-sort=ascending]")
    expect(column).to_have_text("units")
    shown = page.locator("#trials-table tbody tr td:nth-child(5)").all_inner_texts()
    assert [float(text) for text in shown] == sorted(float(text) for text in shown)
    assert not [url for url in admin.requested if "vega" in url]
    for name in ("Best so far", "Parallel coordinates"):
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("img", name=name)).to_be_visible()
        expect(page.locator("#trials-plot canvas")).to_be_visible()
        page.locator("#trials").scroll_into_view_if_needed()
        keep_picture(page, f"job-{name.lower().replace(' ', '-')}-{theme}")
    assert serious_violations(page) == []
    page.set_viewport_size(NARROW)
    # A chart is drawn anew at its new width.
    wait_until(lambda: overflow_pixels(page) <= 0, "the page fits into its window")
    keep_picture(page, f"job-study-{theme}-narrow")


def test_job_is_cancelled_after_a_question_and_not_by_a_viewer(
    admin: Person, viewer: Person, submit: Callable[..., str], training: TrainingClient
) -> None:
    job_id = submit("import time; time.sleep(900)")
    seen = open_job(viewer, job_id, "Running")
    expect(seen.locator("#facts")).to_contain_text("train_from_image")
    assert seen.get_by_role("button", name="Cancel the job").count() == 0
    page = open_job(admin, job_id, "Running")
    button = page.locator("#cancel")

    button.click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert training.get_job(job_id).state is JobState.RUNNING
    # As a browser does when the machine gets a network; it is sent once more.
    page.route("**/cancel?*", lambda route: route.abort("internetdisconnected"), times=1)
    button.click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()

    # Both pages see it, and nobody loads one anew.
    for each in (page, seen):
        expect_state(each, "Cancelled")
    expect(button).to_have_count(0)
    assert training.get_job(job_id).state is JobState.CANCELLED


def test_what_a_job_left_is_listed_with_its_metrics(
    admin: Person, submit: Callable[..., str], stack: LocalStack, stack_store: ObjectStore
) -> None:
    folder = f"{stack.settings.job_bucket}/page-tests/{uuid.uuid4().hex[:8]}"
    stack_store.write_if_changed(f"{folder}/metrics.json", b'{"accuracy": 0.9731}', "application/json")
    stack_store.write_if_changed(f"{folder}/model/weights.bin", b"0" * 2048, "application/octet-stream")

    page = open_job(admin, submit("pass", job_dir=folder), "Succeeded")

    expect(page.locator("#files")).to_contain_text("model/weights.bin")
    expect(page.locator("#files tr:has-text('weights.bin') .number")).to_have_text("2.00 KiB")
    expect(page.locator("#final-metrics")).to_contain_text("0.9731")
    link = page.locator("#files a", has_text="metrics.json").get_attribute("href")
    assert link is not None
    assert web.get(link).json() == {"accuracy": 0.9731}


def test_job_that_is_not_there_is_said_in_plain_words(admin: Person) -> None:
    page = admin.open("/training/jobs/nothing_1")

    expect(page.locator("#problem")).to_contain_text("there is no job 'nothing_1'")
    expect(page.locator("#job")).to_be_hidden()


def test_no_secret_is_in_any_address(admin: Person, submit: Callable[..., str]) -> None:
    page = open_job(admin, submit("pass"), "Succeeded")
    expect(page.locator(".gantt")).to_be_visible()

    assert not [url for url in admin.requested if admin.token in url]
    assert {re.sub(r"^https?://([^/]+).*", r"\1", url) for url in admin.requested} == {
        admin.base_url.removeprefix("http://")
    }


@pytest.mark.extended
@pytest.mark.parametrize("dropped", ["**/gantt.js", "**/job.css", "**/api/jobs/*?*", "**/timeline?*"])
def test_what_the_browser_dropped_is_asked_for_again(
    admin: Person, submit: Callable[..., str], dropped: str
) -> None:
    """
    Chromium drops all requests when the machine's networks change.

    They change with each job of an engine on the machine.
    """
    job_id = submit("pass")
    asked = []

    def drop_once(route: Route) -> None:
        asked.append(route.request.url)
        route.abort("failed") if len(asked) == 1 else route.continue_()

    admin.context.route(dropped, drop_once)

    page = open_job(admin, job_id, "Succeeded")

    expect(page.locator(".gantt")).to_be_visible()
    expect(page.locator("#problem")).to_be_hidden()
    assert len(asked) > 1


@pytest.mark.extended
def test_what_draws_is_asked_for_again(admin: Person, submit: Callable[..., str]) -> None:
    """Chromium drops requests at any time, and remembers which modules did not come."""
    job_id = submit(talks(4, 0), hyperparameters=STUDY)
    asked: list[str] = []

    def drop_once(route: Route) -> None:
        asked.append(route.request.url.partition("?")[0])
        route.abort("failed") if asked.count(asked[-1]) == 1 else route.continue_()

    admin.context.route("**/vendor/*.js*", drop_once)

    page = open_job(admin, job_id, "Succeeded")

    expect(page.locator("#curves canvas")).to_be_visible()
    page.get_by_role("button", name="Best so far").click()
    expect(page.locator("#trials-plot canvas")).to_be_visible()
    expect(page.locator("#problem")).to_be_hidden()
    assert {asked.count(url) for url in asked} == {2}


@pytest.mark.extended
def test_page_of_which_no_file_came_is_loaded_again_and_again(
    admin: Person, submit: Callable[..., str]
) -> None:
    job_id = submit("pass")
    loads = []
    admin.context.on("request", lambda sent: loads.append(sent) if sent.is_navigation_request() else None)
    admin.context.route(
        "**/static/**", lambda route: route.abort("failed") if len(loads) <= 2 else route.continue_()
    )

    page = open_job(admin, job_id, "Succeeded")

    expect(page.locator(".gantt")).to_be_visible()
    # One more where a job elsewhere changes the machine's networks, upon which Chromium drops requests.
    assert len(loads) >= 3
