"""A project's number stands for its id."""

from __future__ import annotations

from training_api.job.project_number import project_number
from training_service.api.vertex_v1.project_numbers import ProjectIds


def test_a_number_is_that_of_a_project_with_jobs() -> None:
    projects = ["demo"]
    now = [0.0]
    ids = ProjectIds(lambda: projects, lambda: now[0])

    assert ids.id_of(str(project_number("demo"))) == "demo"
    assert ids.id_of(str(project_number("later"))) == str(project_number("later"))

    projects.append("later")
    now[0] = 1.0
    assert ids.id_of(str(project_number("later"))) == "later"


def test_projects_are_not_read_again_for_a_number_that_is_known() -> None:
    asked: list[int] = []

    def projects() -> list[str]:
        asked.append(1)
        return ["demo"]

    ids = ProjectIds(projects)
    for _ in range(3):
        ids.id_of(str(project_number("demo")))

    assert len(asked) == 1


def test_projects_are_read_once_a_second_for_numbers_that_nobody_has() -> None:
    asked: list[int] = []

    def projects() -> list[str]:
        asked.append(1)
        return []

    now = [0.0]
    ids = ProjectIds(projects, lambda: now[0])
    for seconds in (0.0, 0.5, 0.9, 1.0):
        now[0] = seconds
        ids.id_of("7")

    assert len(asked) == 2


def test_a_project_is_known_from_its_first_job_on_and_after_its_last() -> None:
    ids = ProjectIds(list)
    number = str(project_number("demo"))
    assert ids.id_of(number) == number

    ids.learn("demo")
    ids.learn(number)

    assert ids.id_of(number) == "demo"


def test_an_id_that_is_a_number_does_not_hide_the_project_of_that_number() -> None:
    number = str(project_number("demo"))

    assert ProjectIds(lambda: ["demo", number]).id_of(number) == "demo"
    assert ProjectIds(lambda: [number, "demo"]).id_of(number) == "demo"
