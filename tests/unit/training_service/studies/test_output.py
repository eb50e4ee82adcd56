"""What a tuning job shows of its trials."""

from __future__ import annotations

import pytest

from container_engines.base import ReplicaLaunch
from container_engines.memory.engine import Behaviour
from container_engines.memory.scripted_reports import ScriptedReport
from tests.support.database_work import database_work
from tests.support.fakes.studies import Tuning, report, search
from tests.support.fakes.world import PROJECT, World
from training_api.states import JobState
from training_service.studies import output
from training_service.studies.output import MAX_METRICS_OF_TRIAL


def test_a_trial_reports_what_its_arguments_make_of_it(world: World) -> None:
    def reports(launch: ReplicaLaunch) -> list[ScriptedReport]:
        (rate,) = [float(arg.partition("=")[2]) for arg in launch.args if arg.startswith("--lr=")]
        return [
            ScriptedReport(after_seconds=step, tag="accuracy", step=step, value=rate * step)
            for step in (1, 2, 30)
        ]

    world.add_image(Behaviour(run_seconds=10, report=reports))
    world.submit(hyperparameters=search(max_trials=1))
    for _ in range(12):
        world.settle()
        world.engine.advance(1)
    world.settle()

    shown = world.get().training_output
    assert shown is not None
    (trial,) = shown.trials or []
    assert trial.state is JobState.SUCCEEDED
    assert trial.final_metric is not None
    assert trial.final_metric.training_step == 2
    assert trial.final_metric.objective_value == 2 * float((trial.hyperparameters or {})["lr"])
    assert world.store.get(PROJECT, "job").state is JobState.SUCCEEDED


def test_a_tuning_job_shows_the_last_measurements_of_each_trial_and_reads_no_others(tuning: Tuning) -> None:
    world = tuning.world
    tuning.submit(max_trials=2)
    world.settle()
    trials = [job for job in world.store.list_active() if job.trial]
    steps = []
    for length in (MAX_METRICS_OF_TRIAL, 3 * MAX_METRICS_OF_TRIAL):
        report(world, trials[0].uid, [float(place) for place in range(length)])
        world.get()
        with database_work(world.database) as work:
            shown = tuning.trials()
        steps.append(work.steps)

    metrics = shown[0].all_metrics or []
    assert [metric.training_step for metric in metrics] == [
        *range(2 * MAX_METRICS_OF_TRIAL, 3 * MAX_METRICS_OF_TRIAL)
    ]
    assert shown[0].final_metric == metrics[-1]
    assert shown[1].all_metrics is None
    assert steps[1] <= 1.1 * steps[0]


def test_the_measurements_of_all_trials_are_limited_together(
    tuning: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "MAX_METRICS", 20)
    tuning.submit(max_trials=5, max_parallel_trials=5)
    tuning.world.settle()
    for job in tuning.world.store.list_active():
        report(tuning.world, job.uid, [float(place) for place in range(9)])

    assert [len(trial.all_metrics or []) for trial in tuning.trials()] == [4] * 5
