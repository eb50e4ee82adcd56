"""The pages: HTML without data, the files that it loads, and the redirects."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from container_training.dashboard.airflow_side.task_jobs import TaskJob
from container_training.dashboard.routes import pages
from container_training.dashboard.routes.assets import assets, content_digest
from training_api.job.job_id import TaskKey

PAGES = Path(pages.__file__).parents[1] / "pages"


def test_pages_have_no_data_and_load_only_what_is_kept_for_a_year(client: TestClient) -> None:
    page = client.get("/jobs")
    files = [part.split('"')[0] for part in page.text.split('"') if "/static/" in part]

    assert page.headers["Cache-Control"] == "no-store"
    assert "of_mine" not in page.text
    for name in files:
        answer = client.get(name)
        assert answer.status_code == 200, name
        assert answer.headers["Cache-Control"] == "private, max-age=31536000, immutable"
    old = files[0].replace(files[0].split("/")[2], "000000000000")
    assert client.get(old).headers["Cache-Control"] == "private, no-cache"


def test_task_without_a_job_says_so_and_unreadable_dags_have_none(
    client: TestClient, add_run: Callable[..., None]
) -> None:
    add_run("mine", "r", "submit")
    for dag_id in ("mine", "theirs", "nobodys"):
        params = {"dag_id": dag_id, "run_id": "r", "task_id": "submit", "map_index": "{MAP_INDEX}"}
        answer = client.get("/task", params=params, follow_redirects=False)
        assert answer.status_code == 200
        assert "No training job" in answer.text


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.html")), ids=lambda page: page.stem)
def test_pages_have_no_script_or_style_of_their_own(page: Path) -> None:
    text = page.read_text("utf-8")

    assert not re.search(r"<script(?![^>]*\bsrc=)", text.replace("<script>$theme</script>", ""))
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text)


def test_the_address_of_the_app_itself_is_that_of_the_list(client: TestClient) -> None:
    answer = client.get("/", follow_redirects=False)

    assert (answer.status_code, answer.headers["Location"]) == (307, "/jobs")


@pytest.mark.parametrize(("path", "title"), [("/jobs", "Jobs"), ("/jobs/a", "Job"), ("/fleet", "Fleet")])
def test_a_page_says_what_it_is(client: TestClient, path: str, title: str) -> None:
    page = client.get(path)

    assert f"<title>{title}" in page.text
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert not re.search(r"\$[a-z_]+", page.text), "something in the page was not filled in"


def test_a_page_is_the_same_whether_there_is_such_a_job_or_not(client: TestClient) -> None:
    assert client.get("/jobs/of_mine").text == client.get("/jobs/of_nobody").text


def test_a_browser_that_has_the_file_is_not_sent_it_again(client: TestClient) -> None:
    name = next(name for name in assets() if name.endswith(".css"))
    address = f"/static/{content_digest()}/{name}"
    tag = client.get(address).headers["ETag"]

    again = client.get(address, headers={"If-None-Match": tag})

    assert (again.status_code, again.content) == (304, b"")
    assert client.get(address, headers={"If-None-Match": '"older"'}).status_code == 200


@pytest.mark.parametrize("name", ["absent.js", "../app.py", "%2e%2e/app.py", "pages/frame.html", ""])
def test_no_other_file_is_served(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{content_digest()}/{name}").status_code == 404


def test_the_tab_of_a_task_leads_to_the_page_of_its_job(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[TaskKey] = []

    def job_of_task(key: TaskKey) -> TaskJob:
        asked.append(key)
        return TaskJob(job_id="a/b", conn_id="gpu&1")

    monkeypatch.setattr(pages, "job_of_task", job_of_task)
    params = {"dag_id": "mine", "run_id": "r", "task_id": "train.wait", "map_index": "2"}

    answer = client.get("/task", params=params, follow_redirects=False)

    assert (answer.status_code, answer.headers["Location"]) == (303, "/jobs/a%2Fb?conn_id=gpu%261")
    assert asked == [TaskKey(dag_id="mine", run_id="r", task_id="train.wait", map_index=2)]
