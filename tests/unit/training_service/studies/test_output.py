"""The memory engine's trials report as they are scripted, on the virtual clock."""

from __future__ import annotations

from container_engines.base import ReplicaLaunch
from container_engines.memory.engine import Behaviour
from container_engines.memory.scripted_reports import ScriptedReport
from tests.support.fakes.studies import search
from tests.support.fakes.world import PROJECT, World
from training_api.states import JobState


def test_a_trial_reports_what_its_arguments_make_of_it(world: World) -> None:
    def report(launch: ReplicaLaunch) -> list[ScriptedReport]:
        (rate,) = [float(arg.partition("=")[2]) for arg in launch.args if arg.startswith("--lr=")]
        return [
            ScriptedReport(after_seconds=step, tag="accuracy", step=step, value=rate * step)
            for step in (1, 2, 30)
        ]

    world.add_image(Behaviour(run_seconds=10, report=report))
    world.submit(hyperparameters=search(max_trials=1))
    for _ in range(12):
        world.settle()
        world.engine.advance(1)
    world.settle()

    output = world.get().training_output
    assert output is not None
    (trial,) = output.trials or []
    assert trial.state is JobState.SUCCEEDED
    assert trial.final_metric is not None
    assert trial.final_metric.training_step == 2
    assert trial.final_metric.objective_value == 2 * float((trial.hyperparameters or {})["lr"])
    assert world.store.get(PROJECT, "job").state is JobState.SUCCEEDED
