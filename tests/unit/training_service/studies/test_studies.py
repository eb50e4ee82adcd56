"""What the loop reads of studies."""

from __future__ import annotations

from tests.support.database_work import database_work
from tests.support.fakes.studies import Tuning, report


def test_the_loop_reads_of_a_study_only_what_is_new(tuning: Tuning) -> None:
    world = tuning.world
    tuning.submit(max_trials=2, enable_trial_early_stopping=True)
    world.settle()
    trials = [job for job in world.store.list_active() if job.trial]
    steps = []
    for length in (10, 5000):
        for trial in trials:
            report(world, trial.uid, [float(place) for place in range(length)])
        world.step()
        for trial in trials:
            report(world, trial.uid, [float(length)], first=length)
        with database_work(world.database) as work:
            world.step()
        steps.append(work.steps)

    assert steps[1] <= steps[0] + 100
