"""A service with a tuning job whose trials report a function of their hyperparameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import World
from training_api.dialects.ml_v1.resources import (
    Goal,
    HyperparameterOutput,
    HyperparameterSpec,
    ParameterSpec,
    ParameterType,
    ScaleType,
)
from training_api.job.tuning.measurement import Report
from training_api.states import ReplicaState
from training_service.store.database import to_us
from training_service.store.measurement_store import Measurement

TAG = "accuracy"
LEARNING_RATE = ParameterSpec(
    parameter_name="lr",
    type=ParameterType.DOUBLE,
    min_value=0.001,
    max_value=1.0,
    scale_type=ScaleType.UNIT_LOG_SCALE,
)


def search(**changes: Any) -> HyperparameterSpec:
    values: dict[str, Any] = {
        "goal": Goal.MAXIMIZE,
        "hyperparameter_metric_tag": TAG,
        "max_trials": 6,
        "max_parallel_trials": 2,
        "params": [LEARNING_RATE],
    }
    return HyperparameterSpec(**(values | changes))


def report(world: World, uid: str, values: Sequence[float], first: int = 0) -> None:
    """Store what a trial reported of the metric: a value a step, from ``first`` on."""
    world.measurements.append(
        [
            Measurement(
                job_uid=uid,
                source="0.0",
                sequence=step,
                report=Report(tag=TAG, step=step, value=value, reported_us=to_us(world.engine.now)),
            )
            for step, value in enumerate(values, first)
        ]
    )


@dataclass
class Tuning:
    """
    A tuning job in a world.

    :param score: trial number and hyperparameters -> what the trial reports at its first look; ``None``:
        nothing.
    :param curve: trial number and how often it has reported -> what it reports at each look, in place of
        ``score``.
    """

    world: World
    score: Callable[[int, dict[str, str]], float | None] = field(default=lambda number, values: float(number))
    tag: str = TAG
    curve: Callable[[int, int], float] | None = None
    reported: Counter[str] = field(default_factory=Counter)
    most_running: int = 0

    def submit(self, job_id: str = "job", run_seconds: float = 10, **changes: Any) -> None:
        self.world.add_image(Behaviour(run_seconds=run_seconds))
        self.world.submit(job_id, hyperparameters=search(**changes))

    def run(self, seconds: float = 300, each: float = 1) -> None:
        """Let time pass until nothing is left to do, and have running trials report."""
        for _ in range(int(seconds / each)):
            self.world.settle()
            self.report()
            self.world.settle()
            if not self.world.store.list_active():
                return
            self.world.engine.advance(each)
        raise AssertionError(f"jobs still active: {self.world.store.list_active()}")

    def report(self) -> None:
        observed = self.world.engine.observe().replicas
        running = {each.job_uid for each in observed if each.state is ReplicaState.RUNNING}
        self.most_running = max(self.most_running, len(running))
        for uid in sorted(running):
            record = self.world.store.find_by_uid(uid)
            if record is None or record.trial is None or (self.reported[uid] and not self.curve):
                continue
            place = self.reported[uid]
            self.reported[uid] += 1
            value = (
                self.curve(record.trial.number, place)
                if self.curve
                else self.score(record.trial.number, dict(record.trial.hyperparameters))
            )
            if value is not None:
                now_us = to_us(self.world.engine.now)
                report = Report(tag=self.tag, step=place + 1, value=value, reported_us=now_us)
                self.world.measurements.append(
                    [Measurement(job_uid=uid, source="0.0", sequence=place, report=report)]
                )

    def trials(self, job_id: str = "job") -> list[HyperparameterOutput]:
        output = self.world.get(job_id).training_output
        assert output is not None
        return output.trials or []
