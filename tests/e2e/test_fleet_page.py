"""The dashboard's page of the fleet, in a real browser, in a real Airflow, with real jobs."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.e2e.airflow_run import wait_until
from tests.e2e.browsing import NARROW, WIDE, Person, keep_picture, overflow_pixels, serious_violations
from tests.support.selection import cases
from tests.support.speed import drawn_out
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, ScaleTier, TrainingInput
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.e2e]

#: The tile with this heading.
TILE = ".tile:has(h2:text-is('{}'))"


@pytest.fixture
def train(training: TrainingClient, pushed_image: ImageRef) -> Callable[[str, str], str]:
    """Return a function that has a job of the model ``browsers`` run a Python program."""

    def train(job_id: str, program: str) -> str:
        training_input = TrainingInput(
            region="us-central1",
            scale_tier=ScaleTier.CUSTOM,
            master_type="n1-standard-4",
            master_config=ReplicaConfig(
                image_uri=str(pushed_image), container_command=["python3", "-c"], container_args=[program]
            ),
        )
        labels = {"airflow-dag": "train_from_image", "airflow-task": "submit", "model": "browsers"}
        training.create_job(Job(job_id=job_id, labels=labels, training_input=training_input))
        return job_id

    return train


@pytest.mark.extended
@pytest.mark.proves("dashboard", on="one machine")
def test_fleet_follows_a_job_from_its_start_to_its_place_in_the_figures(
    admin: Person, training: TrainingClient, train: Callable[[str, str], str], job_id: str
) -> None:
    page = admin.open("/training/fleet")
    expect(page.locator("#live")).to_have_text("Live")
    running = page.locator(f"{TILE.format('Running')} .figure")
    expect(running).to_have_text("0")

    train(job_id, f"import time; time.sleep({drawn_out(20)})")

    expect(running).to_have_text("1")
    expect(page.locator(f"{TILE.format('In use')} .detail")).to_contain_text("cores")
    wait_until(lambda: training.get_job(job_id).state is JobState.SUCCEEDED, "the job succeeds")
    expect(running).to_have_text("0")
    model = page.locator("#models tr:has(th:text-is('browsers'))")
    expect(model).to_contain_text(job_id)
    expect(page.locator("#waits tbody th")).to_contain_text(["n1-standard-4"])
    expect(page.locator("#cost .summary")).to_contain_text("EUR in all")


def test_choices_are_in_the_address_and_charts_can_be_read_by_keys_and_as_tables(
    admin: Person, train: Callable[[str, str], str], job_id: str
) -> None:
    train(job_id, "pass")
    page = admin.open("/training/fleet")
    expect(page.locator("#live")).to_have_text("Live")
    page.get_by_text("7 days").click()
    page.wait_for_url("**/training/fleet?window=7d")
    expect(page.locator("#scope")).to_contain_text("in the last 7 days")

    page.get_by_role("combobox", name="by").select_option("label:model")
    page.wait_for_url("**/training/fleet?window=7d&by=label%3Amodel")
    expect(page.locator("#cost .legend")).to_contain_text("browsers")
    page.locator("#use .plot").focus()
    page.keyboard.press("End")
    expect(page.locator("#use [role=status]")).to_have_text(re.compile(r"average .* peak .* capacity now"))
    page.locator("#queue summary").press("Enter")
    rows = page.locator("#queue tbody tr")
    wait_until(lambda: rows.count() >= 7 * 24, "the chart is a table with a row an hour")


@pytest.mark.parametrize("theme", cases(["light", "dark"], witnesses=["light"]))
def test_page_is_for_everybody(
    viewer: Person, train: Callable[[str, str], str], job_id: str, theme: str
) -> None:
    train(job_id, "raise SystemExit(1)")
    page = viewer.open("/training/fleet")
    page.evaluate("(theme) => localStorage.setItem('theme', theme)", theme)
    page.reload()
    expect(page.locator("#failures tbody th")).to_contain_text(["The trainer failed"])
    expect(page.locator("#orphans-note")).to_contain_text("cancel_orphans")

    assert page.evaluate("document.documentElement.dataset.theme") == theme
    for size, name in ((WIDE, theme), (NARROW, f"{theme}-narrow")):
        page.set_viewport_size(size)
        # A chart is drawn anew at its new width.
        wait_until(lambda: overflow_pixels(page) <= 0, "the page fits into its window")
        assert serious_violations(page) == []
        keep_picture(page, f"fleet-{name}")


def test_fleet_is_in_airflows_menu(admin: Person) -> None:
    page = admin.open("/plugin/training-fleet")

    expect(page.frame_locator("iframe").locator("#live")).to_have_text("Live")
