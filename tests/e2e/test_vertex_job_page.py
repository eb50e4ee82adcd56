"""The page of a job of Vertex AI, in a real browser, in a real Airflow, with real jobs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from container_training.work.object_store import ObjectStore
from local_stack.people.credentials import developers_header
from local_stack.settings import REPOSITORY_ROOT
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
from training_api.job.image_ref import ImageRef
from training_api.job.project_number import project_number

pytestmark = [pytest.mark.usefixtures("guarded"), pytest.mark.docker, pytest.mark.e2e]

#: Writes lines, and the file of cloudml-hypertune, which the base image lacks.
TALKS = """
import json, os, sys, time
path = os.environ.get("CLOUD_ML_HP_METRIC_FILE", "/tmp/hypertune/output.metrics")
os.makedirs(os.path.dirname(path), exist_ok=True)
lines = []
for step in range(1, STEPS + 1):
    print(f"epoch {step} of STEPS", flush=True)
    report = {"timestamp": time.time(), "trial": "0", "accuracy": str(1 - 1 / step), "global_step": str(step)}
    lines.append(json.dumps({**report, "checkpoint_path": ""}))
    with open(path, "w") as file:
        file.write(chr(10).join(lines) + chr(10))
    time.sleep(PAUSE)
sys.exit(STATUS)
"""
LABELS = {"airflow-dag": "train_from_image", "airflow-task": "submit", "team": "vision"}
Submit = Callable[[str, dict[str, Any]], dict[str, Any]]


def pool(image: ImageRef, program: str) -> dict[str, Any]:
    return {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "containerSpec": {"imageUri": str(image), "command": ["python3", "-u", "-c"], "args": [program]},
    }


def talks(steps: int, status: int = 0) -> str:
    """Return the program; it writes slowly enough for a page to see it at work on this machine."""
    return (
        TALKS.replace("STEPS", str(steps)).replace("PAUSE", str(scaled(0.5))).replace("STATUS", str(status))
    )


@pytest.fixture
def submit(stack: LocalStack) -> Iterator[Submit]:
    """Submit a resource of a collection; cancelled at the end."""
    root = f"{stack.settings.training_url}/vertex/v1"
    parent = f"projects/{stack.settings.project}/locations/us-central1"
    headers = developers_header(stack.settings)
    names: list[str] = []

    def submit(collection: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = web.post(f"{root}/{parent}/{collection}", json={"labels": LABELS, **body}, headers=headers)
        created: dict[str, Any] = answer.raise_for_status().json()
        names.append(created["name"])
        return created

    yield submit
    for name in names:
        web.post(f"{root}/{name}:cancel", json={}, headers=headers)


def id_of(name: str) -> str:
    return name.rpartition("/")[2]


def expect_state(page: Page, state: str) -> None:
    """Wait until the job is in ``state``; it may have to wait for those of other tests."""
    expect(page.locator("#state .state")).to_have_text(state, timeout=milliseconds(180))


def choose(person: Person, theme: str) -> None:
    """Have all pages that a person opens from now on in ``theme``."""
    # A page that shows an error of the browser has no storage.
    person.context.add_init_script(f"if (self.origin !== 'null') localStorage.setItem('theme', '{theme}')")


def keep_narrow_picture(page: Page, name: str) -> None:
    page.set_viewport_size(NARROW)
    # A chart is drawn anew at its new width.
    wait_until(lambda: overflow_pixels(page) <= 0, "the page fits into its window")
    keep_picture(page, name)


@pytest.mark.extended
def test_a_custom_job_is_followed_from_the_list_to_its_failure(
    admin: Person, submit: Submit, pushed_image: ImageRef, stack: LocalStack
) -> None:
    title = f"digits {uuid.uuid4().hex[:6]}"
    pools = [pool(pushed_image, talks(60, status=7)), pool(pushed_image, talks(2))]
    job = submit("customJobs", {"displayName": title, "jobSpec": {"workerPoolSpecs": pools}})
    job_id = id_of(job["name"])

    listed = admin.open("/training/jobs")
    link = listed.get_by_role("link", name=title)
    expect(listed.get_by_role("row", name=title)).to_contain_text(f"Vertex AI · {job_id}")
    keep_picture(listed, "jobs-of-both-dialects")
    link.click()
    page = listed

    expect(page.locator("h1")).to_have_text(title)
    expect_state(page, "Running")
    facts = page.locator("#facts")
    expect(facts).to_contain_text(job_id)
    expect(page.locator("#resource")).to_have_text(job["name"])
    expect(facts).to_contain_text("train_from_image")
    expect(page.locator("#log-lines")).to_contain_text("epoch 2 of 60")
    expect(page.locator("#curves canvas")).to_be_visible()
    expect(page.locator(".gantt")).to_contain_text("workerpool1-0")
    keep_picture(page, "vertex-job-running")

    expect_state(page, "Failed")
    expect(page.locator("#why-text")).to_contain_text(
        "the replica workerpool0-0 ended by itself with the status 7", ignore_case=True
    )
    expect(page.locator("#why-message")).to_contain_text("exited with a non-zero status of 7")
    page.locator("#log-form select[name=replica]").select_option("workerpool0-0")
    page.locator("#log-form input[name=search]").fill("EPOCH 7 of")
    expect(page.locator("#log-count")).to_have_text("1 matching line")
    expect(page.locator("#request-facts")).to_contain_text("Image of workerpool1")
    assert serious_violations(page) == []
    keep_picture(page, "vertex-job-failed")
    choose(admin, "dark")
    page = admin.open(f"/training/jobs/{job_id}")
    expect_state(page, "Failed")
    expect(page.locator(".gantt")).to_contain_text("workerpool1-0")
    expect(page.locator("#log-lines")).to_contain_text("epoch 60 of 60")
    keep_narrow_picture(page, "vertex-job-failed-dark-narrow")
    page.locator("#request").scroll_into_view_if_needed()
    keep_picture(page, "vertex-request-dark-narrow")

    project = stack.settings.project
    for owner in (project, str(project_number(project))):
        named = admin.open(f"/training/jobs/projects/{owner}/locations/us-central1/customJobs/{job_id}")
        expect(named).to_have_url(re.compile(rf"/training/jobs/{job_id}(\?.*)?$"))
        expect(named.locator("h1")).to_have_text(title)


def test_a_connection_to_vertex_ai_shows_what_its_api_tells(
    admin: Person, submit: Submit, pushed_image: ImageRef
) -> None:
    """By lists and resources alone, as for jobs in Google's cloud."""
    title = f"cloud {uuid.uuid4().hex[:6]}"
    body = {"displayName": title, "jobSpec": {"workerPoolSpecs": [pool(pushed_image, talks(4, status=7))]}}
    job_id = id_of(submit("customJobs", body)["name"])

    page = admin.open("/training/jobs?conn_id=training_vertex")
    link = page.get_by_role("link", name=title)
    expect(page.get_by_role("row", name=title)).to_contain_text(f"Vertex AI · {job_id}")
    keep_picture(page, "jobs-of-vertex-ai")
    link.click()

    expect(page.locator("h1")).to_have_text(title)
    expect(page).to_have_url(re.compile("conn_id=training_vertex"))
    expect_state(page, "Failed")
    expect(page.locator("#why-text")).to_contain_text(
        "the replica workerpool0-0 ended by itself with the status 7", ignore_case=True
    )
    expect(page.locator("#log-lines")).to_contain_text("epoch 4 of 4")
    expect(page.locator("#metrics")).to_be_hidden()
    expect(page.locator("#request-facts")).to_contain_text(str(pushed_image))
    expect(page.locator("#request-facts")).to_contain_text(pushed_image.digest or "")
    assert serious_violations(page) == []
    keep_picture(page, "job-of-vertex-ai")

    fleet = admin.open("/training/fleet?conn_id=training_vertex")
    expect(fleet.locator("#problem")).to_contain_text("Vertex AI tells neither capacity nor use")
    expect(fleet.locator("#fleet")).to_be_hidden()
    keep_picture(fleet, "fleet-of-vertex-ai")


@pytest.mark.parametrize("theme", cases(["light", "dark"], witnesses=["light"]))
def test_a_tuning_job_has_its_trials_and_their_curves(
    admin: Person, submit: Submit, pushed_image: ImageRef, theme: str
) -> None:
    parameter = {"parameterId": "units", "integerValueSpec": {"minValue": "1", "maxValue": "64"}}
    body = {
        "displayName": "search units",
        "studySpec": {"metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}], "parameters": [parameter]},
        "maxTrialCount": 3,
        "parallelTrialCount": 3,
        "trialJobSpec": {"workerPoolSpecs": [pool(pushed_image, talks(4))]},
    }
    job = submit("hyperparameterTuningJobs", body)

    choose(admin, theme)
    page = admin.open(f"/training/jobs/{id_of(job['name'])}")
    expect_state(page, "Succeeded")

    expect(page.locator("h1")).to_have_text("search units")
    rows = page.locator("#trials-table tbody tr")
    expect(rows).to_have_count(3)
    expect(page.locator("#trials-table")).to_contain_text("0.75")
    page.get_by_role("button", name="units").click()
    expect(page.locator("#trials-table th[aria-sort=ascending]")).to_have_text("units")
    expect(page.locator("#curves canvas").first).to_be_visible()
    keep_picture(page, f"vertex-trials-{theme}")
    for name in ("Best so far", "Parallel coordinates"):
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("img", name=name)).to_be_visible()
    assert serious_violations(page) == []
    keep_narrow_picture(page, f"vertex-trials-{theme}-narrow")


def test_the_address_of_a_pipeline_leads_to_its_job_and_to_what_it_left(
    admin: Person, submit: Submit, pushed_image: ImageRef, stack: LocalStack, stack_store: ObjectStore
) -> None:
    folder = f"{stack.settings.job_bucket}/pipeline-pages/{uuid.uuid4().hex[:8]}"
    stack_store.write_if_changed(f"{folder}/model/weights.bin", b"0" * 2048, "application/octet-stream")
    body = {
        "displayName": "retrain digits",
        "trainingTaskDefinition": "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml",
        "trainingTaskInputs": {
            "workerPoolSpecs": [pool(pushed_image, "print('trained')")],
            "baseOutputDirectory": {"outputUriPrefix": folder},
        },
    }
    pipeline = submit("trainingPipelines", body)
    backing = pipeline["trainingTaskMetadata"]["backingCustomJob"]

    page = admin.open(f"/training/jobs/{pipeline['name']}")

    expect(page).to_have_url(re.compile(rf"/training/jobs/{id_of(backing)}(\?.*)?$"))
    expect_state(page, "Succeeded")
    facts = page.locator("#facts")
    expect(facts).to_contain_text("retrain digits")
    expect(page.locator("#resource")).to_have_text(f"{backing}, made by {pipeline['name']}")
    expect(page.locator("#files")).to_contain_text("model/weights.bin")
    expect(page.locator("#files-folder")).to_contain_text(folder)
    keep_picture(page, "vertex-pipeline-job")


def test_a_custom_job_is_cancelled_after_a_question_and_not_by_a_viewer(
    admin: Person, viewer: Person, submit: Submit, pushed_image: ImageRef
) -> None:
    pools = [pool(pushed_image, "import time; time.sleep(900)")]
    job = submit("customJobs", {"displayName": "sleeper", "jobSpec": {"workerPoolSpecs": pools}})
    address = f"/training/jobs/{id_of(job['name'])}"
    seen, page = viewer.open(address), admin.open(address)
    expect_state(seen, "Running")
    expect_state(page, "Running")
    assert seen.get_by_role("button", name="Cancel the job").count() == 0

    page.locator("#cancel").click()
    expect(page.get_by_role("dialog")).to_contain_text("Cancel sleeper?")
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()

    for each in (page, seen):
        expect_state(each, "Cancelled")
    expect(page.locator("#cancel")).to_have_count(0)


@pytest.mark.parametrize(
    "name", ["1234567890123456789", "projects/another/locations/us-central1/customJobs/1", "a/b", "9" * 4000]
)
def test_what_is_no_job_is_said_in_plain_words(admin: Person, name: str) -> None:
    page = admin.open(f"/training/jobs/{name}")

    expect(page.locator("#problem")).to_contain_text(f"there is no job '{name[:300]}'")
    expect(page.locator("#job")).to_be_hidden()
    assert overflow_pixels(page) <= 0


def test_the_commands_take_the_resource_name_of_a_job(
    submit: Submit, pushed_image: ImageRef, stack: LocalStack
) -> None:
    pools = [pool(pushed_image, talks(1, status=7))]
    job = submit("customJobs", {"displayName": "by name", "jobSpec": {"workerPoolSpecs": pools}})
    variables = {
        "TRAINING_ENDPOINT": stack.settings.training_url,
        "GOOGLE_CLOUD_PROJECT": stack.settings.project,
        "TRAINING_TOKEN_FILE": str(stack.settings.developer_token_file),
    }

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "training_service", "jobs", *arguments],
            cwd=REPOSITORY_ROOT,
            env=os.environ | variables | {"COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=scaled(240),
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    status, log = run("logs", job["name"], "--follow")
    assert (status, "workerpool0-0  epoch 1 of 1" in log) == (3, True), log
    status, described = run("describe", id_of(job["name"]))
    assert status == 0
    assert re.search(r"^api +Vertex AI *$", described, re.MULTILINE), described
    assert re.search(rf"^resource +{job['name']} *$", described, re.MULTILINE), described
    assert "FAILED" in described
