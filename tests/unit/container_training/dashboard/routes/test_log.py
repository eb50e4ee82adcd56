"""The log of one job over HTTP: pages from its end, lines after a cursor, and a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from tests.support.fakes.fake_service import FakeService, make_job
from tests.support.fakes.service_of_two_dags import RIGHTS
from tests.unit.container_training.dashboard.routes.conftest import OpenPages


@pytest.fixture
def talker() -> FakeService:
    """A service whose job has written five lines."""
    service = FakeService()
    service.add(make_job(labels={"airflow-dag": "mine"}))
    for number in range(5):
        service.write("digits_1", f"line {number}")
    return service


@pytest.fixture
def client(open_pages: OpenPages, talker: FakeService) -> Iterator[TestClient]:
    with open_pages(talker.handle, RIGHTS, project="demo") as client:
        yield client


def ask(client: TestClient, **query: str) -> Any:
    answer = client.get("/api/jobs/digits_1/log", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def texts(answer: Any) -> list[str]:
    return [line["text"] for line in answer["lines"]]


def test_the_newest_lines_come_first_and_are_shown_oldest_first(
    client: TestClient, talker: FakeService
) -> None:
    talker.page_size = 2

    newest = ask(client)
    older = ask(client, page=newest["next"])

    assert texts(newest) == ["line 3", "line 4"]
    assert texts(older) == ["line 1", "line 2"]


def test_lines_after_the_cursor_are_those_that_came_since(client: TestClient, talker: FakeService) -> None:
    cursor = ask(client)["cursor"]
    talker.write("digits_1", "line 5")
    talker.write("digits_1", "line 6")

    later = ask(client, after=cursor)

    assert texts(later) == ["line 5", "line 6"]
    assert ask(client, after=later["cursor"]) == {"lines": [], "cursor": later["cursor"], "next": ""}


def test_one_replica_can_be_asked_for(client: TestClient, talker: FakeService) -> None:
    talker.write("digits_1", "hello", task_name="worker-replica-0")

    assert texts(ask(client, replica="worker-replica-0")) == ["hello"]


def test_a_severity_that_there_is_not_is_refused(client: TestClient) -> None:
    answer = client.get("/api/jobs/digits_1/log", params={"severity": "LOUD"})

    assert answer.status_code == 400
    assert "severity" in answer.json()["message"]


def test_the_file_has_all_pages_and_a_name_without_odd_letters(
    client: TestClient, talker: FakeService
) -> None:
    talker.page_size = 2

    answer = client.get("/api/jobs/digits_1/log.txt", params={"trial": '3"; x=/', "replica": ""})

    assert [line.rpartition(": ")[2] for line in answer.text.splitlines()] == [
        f"line {number}" for number in range(5)
    ]
    assert answer.headers["Content-Disposition"] == ('attachment; filename="digits_1_trial-3___x__.log"')


def test_a_file_that_breaks_off_says_so_in_its_last_line(client: TestClient, talker: FakeService) -> None:
    talker.page_size = 2
    talker.faults = [None, None, httpx.ReadError("reset")]

    lines = client.get("/api/jobs/digits_1/log.txt").text.splitlines()

    assert len(lines) == 3
    assert lines[-1].startswith("--- the file ends here, the log does not: ")


def test_trouble_before_the_first_line_is_an_answer_and_no_file(
    client: TestClient, talker: FakeService
) -> None:
    talker.faults = [None, httpx.ReadError("reset")]

    answer = client.get("/api/jobs/digits_1/log.txt")

    assert answer.status_code == 503
    assert "did not answer" in answer.json()["message"]
