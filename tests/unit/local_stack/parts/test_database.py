"""Which database Airflow gets, and where it lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_stack.errors import LocalStackError
from local_stack.parts.database import airflow_database_url, database_identity, sqlite_file
from local_stack.settings import AirflowDatabase, Part, StackSettings
from local_stack.stack import LocalStack


def settings_in(folder: Path, **changes: object) -> StackSettings:
    return StackSettings.model_validate({"state_dir": folder, **changes})


def with_postgresql(state: Path, folder: Path) -> None:
    (folder / "data").mkdir(parents=True)
    (state / "airflow").mkdir(parents=True, exist_ok=True)
    (state / "airflow" / "postgresql-folder").write_text(str(folder))


def test_a_stack_without_postgresql_has_airflows_own_sqlite(tmp_path: Path) -> None:
    assert airflow_database_url(settings_in(tmp_path)) == f"sqlite:///{tmp_path}/airflow/airflow.db"


def test_a_stack_keeps_the_postgresql_that_it_began_with(tmp_path: Path) -> None:
    with_postgresql(tmp_path, tmp_path / "elsewhere")

    url = airflow_database_url(settings_in(tmp_path))

    host = str(tmp_path / "elsewhere").replace("/", "%2F")
    assert url == f"postgresql+psycopg://airflow@/airflow?host={host}"


def test_sqlite_is_taken_where_it_is_asked_for(tmp_path: Path) -> None:
    with_postgresql(tmp_path, tmp_path / "elsewhere")

    url = airflow_database_url(settings_in(tmp_path, airflow_database=AirflowDatabase.SQLITE))

    assert url.startswith("sqlite:")


def test_a_folder_that_was_removed_is_no_database(tmp_path: Path) -> None:
    with_postgresql(tmp_path, tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "data").rmdir()

    assert airflow_database_url(settings_in(tmp_path)).startswith("sqlite:")


@pytest.mark.parametrize("was_there", [True, False])
def test_a_new_database_at_the_same_place_is_another_one(tmp_path: Path, was_there: bool) -> None:
    settings = settings_in(tmp_path)
    file = sqlite_file(settings)
    file.parent.mkdir()
    if was_there:
        file.touch()
    before = database_identity(settings)

    file.with_suffix(".new").touch()
    file.with_suffix(".new").replace(file)

    assert database_identity(settings) != before


@pytest.mark.needs_program("postgres")
def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    settings = settings_in(
        tmp_path / "state", airflow_database=AirflowDatabase.POSTGRESQL, database_dir=precious
    )
    part = LocalStack(settings).parts[Part.DATABASE]

    with pytest.raises(LocalStackError, match=r"must name a folder that does not exist, got .*precious"):
        part.prepare()

    assert (precious / "thesis.txt").read_text() == "years of work"
