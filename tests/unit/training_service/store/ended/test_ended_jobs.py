"""Which ended jobs may go; a removal that is killed anywhere leaves all with an owner."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.fakes.ended_jobs import CHILDREN, active_states, count, end_job, job_ids, orphaned_rows
from tests.support.fakes.studies import Tuning, search
from tests.support.fakes.world import PROJECT, World
from training_api.states import JobState
from training_service.store.database import open_database, writing
from training_service.store.ended import ended_jobs
from training_service.store.ended.ended_jobs import Choice, EndedJobs
from training_service.store.logs.log_sizes import log_amount
from training_service.store.tables import jobs, log_lines, policies
from training_service.upkeep.tasks import remove_jobs

MODEL = {"airflow-dag": "train", "model": "digits"}


class Killed(Exception):
    """The process ends here."""


def older_than(world: World, days: float = 90, **choice: Any) -> Choice:
    return Choice(ended_before=world.engine.now - timedelta(days=days), **choice)


def chosen(world: World, **choice: Any) -> list[str]:
    batches = EndedJobs(world.database).batches(older_than(world, **choice))
    return [job.job_id for batch in batches for job in batch]


def remove(world: World, choice: Choice | None = None) -> None:
    for _ in remove_jobs(EndedJobs(world.database), world.logs, choice or older_than(world)):
        pass


def test_a_job_goes_with_all_that_belongs_to_it_and_no_other_does(world: World) -> None:
    end_job(world, "old", trials=2)
    remove(world)
    assert job_ids(world.database) == []
    assert [count(world.database, table) for table in (jobs, log_lines, policies, *CHILDREN)] == [0] * 8
    end_job(world, "young", trials=2, days_ago=80)
    before = [count(world.database, table) for table in (jobs, log_lines, policies, *CHILDREN)]

    end_job(world, "old", trials=2)
    remove(world)

    assert job_ids(world.database) == ["young"]
    assert [count(world.database, table) for table in (jobs, log_lines, policies, *CHILDREN)] == before


def test_only_jobs_that_ended_long_ago_may_go(world: World) -> None:
    world.submit("waits")
    end_job(world, "young", days_ago=89.9)
    end_job(world, "old", days_ago=90.1)
    for state in active_states():
        end_job(world, f"old_{state.value}".lower(), state=state)

    assert chosen(world) == ["old"]


def test_the_choice_is_by_project_and_state(world: World) -> None:
    end_job(world, "good")
    end_job(world, "bad", state=JobState.FAILED)
    end_job(world, "other", project="another-project")

    assert chosen(world) == ["good", "bad", "other"]
    assert chosen(world, project=PROJECT) == ["good", "bad"]
    assert chosen(world, states=frozenset({JobState.FAILED})) == ["bad"]


def test_the_newest_successes_of_a_model_stay(world: World) -> None:
    for age in (200, 190, 180, 170, 160):
        end_job(world, f"model_{age}", days_ago=age, labels=MODEL)
    end_job(world, "failed", days_ago=100, labels=MODEL, state=JobState.FAILED)
    end_job(world, "of_another_dag", days_ago=300, labels={"airflow-dag": "other"})
    end_job(world, "without_labels", days_ago=300)

    assert chosen(world) == ["without_labels", "model_200", "model_190", "failed"]


def test_a_tuning_job_goes_after_those_that_go_on_from_it(world: World) -> None:
    end_job(world, "first", trials=1, days_ago=200)
    second = search(resume_previous_job_id="first")
    end_job(world, "second", days_ago=100, hyperparameters=second)

    before = chosen(world)
    remove(world)

    assert before == ["second"]
    assert chosen(world) == ["first"]


def test_a_tuning_job_goes_on_without_the_one_before_it_if_that_has_gone(tuning: Tuning) -> None:
    tuning.submit("first", max_trials=1)
    tuning.run()
    tuning.submit("second", max_trials=2, resume_previous_job_id="first")
    with writing(tuning.world.database).begin() as connection:
        connection.execute(sa.delete(jobs).where(jobs.c.job_id == "first"))

    tuning.run()

    assert tuning.world.state("second") is JobState.SUCCEEDED


def test_a_tuning_job_of_which_a_trial_goes_on_stays(world: World) -> None:
    study = end_job(world, trials=2)
    with writing(world.database).begin() as connection:
        running = sa.update(jobs).where(jobs.c.job_id == f"{study.uid}/1").values(state="RUNNING")
        connection.execute(running)

    assert chosen(world) == []


def test_many_jobs_and_rows_go_in_bounded_steps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_jobs, "BATCH_JOBS", 2)
    monkeypatch.setattr(ended_jobs, "STEP_ROWS", 2)
    for number in range(5):
        end_job(world, f"job_{number}", trials=3)

    steps = list(remove_jobs(EndedJobs(world.database), world.logs, older_than(world)))

    assert job_ids(world.database) == []
    assert orphaned_rows(world.database) == {}
    # The entries of one job are removed together.
    assert max(number for kind, number in steps if kind != "log_entries") == 2


def test_a_job_of_the_same_name_finds_nothing_of_the_one_that_went(world: World) -> None:
    end_job(world)
    remove(world)

    world.submit()

    assert world.messages() == ["Job job is queued."]
    assert count(world.database, policies) == 0


@pytest.fixture
def kept_file(tmp_path: Path) -> Path:
    """A database with a tuning job and a job that may go, and one that may not."""
    path = tmp_path / "kept.db"
    database = open_database(f"sqlite:///{path}")
    world = World(database)
    end_job(world, "study", trials=2)
    end_job(world, "old")
    end_job(world, "young", days_ago=1)
    database.dispose()
    return path


def statements_until_kill(database: sa.Engine, limit: int) -> None:
    """Kill whoever uses the database after so many statements that change it."""
    left = limit

    def after(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal left
        if statement.startswith(("DELETE", "BEGIN")):
            left -= 1
            if left < 0:
                raise Killed

    sa.event.listen(database, "after_cursor_execute", after)


def kills(path: Path, folder: Path) -> Iterator[tuple[sa.Engine, bool]]:
    """Yield a database after each possible kill of a removal, and whether it was killed."""
    for limit in range(1000):
        copy = folder / f"killed_{limit}.db"
        shutil.copy(path, copy)
        database = open_database(f"sqlite:///{copy}")
        world = World(database)
        statements_until_kill(database, limit)
        killed = False
        try:
            remove(world)
        except Killed:
            killed = True
        database.dispose()
        fresh = open_database(f"sqlite:///{copy}")
        yield fresh, killed
        fresh.dispose()
        if not killed:
            return


@pytest.mark.extended
def test_a_removal_that_is_killed_anywhere_leaves_no_row_without_its_job(
    kept_file: Path, tmp_path: Path
) -> None:
    seen = 0

    for database, killed in kills(kept_file, tmp_path):
        seen += killed
        assert orphaned_rows(database) == {}
        world = World(database)
        remove(world)
        assert job_ids(database) == ["young"]
        assert orphaned_rows(database) == {}

    assert seen > 20


def test_counts_are_those_of_what_would_go(world: World) -> None:
    end_job(world, trials=2)
    ended = EndedJobs(world.database)
    (batch,) = ended.batches(older_than(world))

    counts = ended.count_rows(batch)

    assert counts == {
        "jobs": 1,
        "trials": 2,
        "measurements": 9,
        "usage_samples": 9,
        "gpu_samples": 9,
        "spans": 3,
        "refusals": 3,
    }
    assert log_amount(world.database, PROJECT, "job")[0] == 3
