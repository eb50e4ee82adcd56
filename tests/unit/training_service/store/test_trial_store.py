"""Trials in the database."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.support.database_work import database_work
from tests.support.fakes.studies import Tuning
from tests.support.fakes.world import PROJECT, World
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.states import JobState
from training_service.model.records import JobRecord
from training_service.store.database import open_database
from training_service.store.logs.log_store import LogStore
from training_service.store.trial_store import TrialStore


def study_of(tuning: Tuning) -> JobRecord:
    """Return a tuning job that has no trial yet."""
    tuning.submit()
    return tuning.world.store.get(PROJECT, "job")


def test_a_trial_is_looked_for_and_stored_by_one_statement(tuning: Tuning) -> None:
    study = study_of(tuning)

    with database_work(tuning.world.database) as work:
        stored = tuning.world.add_trial(study, 1, {"lr": "0.1"})

    assert stored
    assert [each.split(maxsplit=3)[:3] for each in work.statements if " jobs" in each] == [
        ["INSERT", "INTO", "jobs"]
    ]


def test_a_trial_has_what_was_decided_about_it(tuning: Tuning) -> None:
    study = study_of(tuning)

    tuning.world.add_trial(study, 3, {"lr": "0.1"})

    (trial,) = tuning.world.trials.active(study.uid)
    assert trial.trial is not None
    assert (trial.trial.number, trial.trial.hyperparameters) == (3, {"lr": "0.1"})
    assert (trial.state, trial.version, trial.trial.study_sequence) == (JobState.QUEUED, 1, study.sequence)


def test_of_writers_on_two_connections_one_stores_a_trial(tmp_path: Path) -> None:
    tuning = Tuning(World(open_database(f"sqlite:///{tmp_path / 'jobs.db'}")))
    study = study_of(tuning)
    # Two databases queue up at SQLite's lock only, as two processes do.
    databases = [open_database(f"sqlite:///{tmp_path / 'jobs.db'}") for _ in range(4)]
    stores = [TrialStore(database, LogStore(database)) for database in databases]
    together = threading.Barrier(len(stores))
    stored: list[bool] = []
    given = {"lr": "0.1"}
    made = ML_V1.trial(study.spec, study.request, 1, given)

    def insert(store: TrialStore) -> None:
        together.wait(timeout=60)
        stored.append(store.insert(study, 1, given, made))

    threads = [threading.Thread(target=insert, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(stored) == [False, False, False, True]
    assert len(tuning.world.trials.active(study.uid)) == 1
    assert sum("Trial 1" in message for message in tuning.world.messages()) == 1
    for database in (tuning.world.database, *databases):
        database.dispose()


def test_a_study_that_has_been_cancelled_meanwhile_gets_no_trial(tuning: Tuning) -> None:
    study = study_of(tuning)
    tuning.world.jobs.cancel(PROJECT, "job")

    stored = tuning.world.add_trial(study, 1, {"lr": "0.1"})

    assert not stored
    assert tuning.world.trials.active(study.uid) == []
