"""
What early stopping knows of trials, and what it saved in a study. Pure.

The rules that stop a trial are in ``stop_rules.py``, which needs NumPy.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from training_api.job.tuning.search_terms import Goal
from training_service.search.wilson import wilson_interval

#: Of the trials that a rule would stop, so many run on, to tell what the rules cost.
SHADOW_SHARE = 0.05
#: Shadow trials that end among so many of the best, at least one, were false stops.
TOP_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """
    One report of a trial.

    :param value: any float; NaN and the infinities say nothing and are passed over.
    :param seconds: since the trial started.
    """

    step: int
    value: float
    seconds: float


#: The reports of a trial in their order. A trial that starts again repeats steps; its later report of a step
#: holds.
Curve = Sequence[Point]


class StopRule(StrEnum):
    """The rule that stops a trial."""

    MEDIAN = "MEDIAN"
    FORECAST = "FORECAST"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReason:
    """Why a trial is stopped: ``text`` is a clause with the figures, and what ``str`` gives."""

    rule: StopRule
    text: str

    def __str__(self) -> str:
        return self.text


class Ending(StrEnum):
    """How a trial came to its end."""

    COMPLETED = "COMPLETED"
    STOPPED = "STOPPED"  #: a rule ended it
    SHADOW = "SHADOW"  #: a rule would have ended it, and it ran on to its end


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """
    A trial that has ended.

    :param final_value: its final metric; ``None``: it has none.
    :param seconds: how long it ran, at least 0.
    """

    ending: Ending
    seconds: float
    final_value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStoppingReport:
    """
    What early stopping did in a study.

    :param trials: those that ended, however.
    :param saved_seconds: estimated; of one slot, trials in parallel are added up.
    :param saved_share: of the time that all trials would have taken, 0 to 1.
    :param shadows: trials that a rule would have stopped and that ran on.
    :param false_stops: those of them that ended among the best.
    :param false_stop_interval: of the rate, with 95 % confidence.
    """

    trials: int
    stopped: int
    saved_seconds: float
    saved_share: float
    shadows: int
    false_stops: int
    false_stop_interval: tuple[float, float]

    @property
    def false_stop_rate(self) -> float | None:
        """The estimated share of the stops that were wrong; ``None`` without a shadow trial."""
        return self.false_stops / self.shadows if self.shadows else None

    @property
    def text(self) -> str:
        """A sentence for the log."""
        saved = f"{self.stopped} of {self.trials} trials were stopped early, which saved about "
        saved += f"{self.saved_seconds:.0f} s, {self.saved_share:.0%} of the time of all trials; "
        if self.false_stop_rate is None:
            return (
                f"{saved}no trial that was to be stopped ran on, so that the rate of false stops is not known"
            )
        low, high = self.false_stop_interval
        return (
            f"{saved}of {self.shadows} that were to be stopped and ran on, {self.false_stops} ended among "
            f"the best: an estimated false-stop rate of {self.false_stop_rate:.0%} ({low:.0%} to {high:.0%} "
            "with 95 % confidence)"
        )


def is_shadow(seed: int, trial_number: int) -> bool:
    """
    Tell whether the trial runs to its end although a rule would stop it.

    ``SHADOW_SHARE`` of all trials, the same on each call.

    Pure, and the same on every machine.
    """
    digest = hashlib.blake2b(f"{seed}:{trial_number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < SHADOW_SHARE * 2**64


def early_stopping_report(trials: Sequence[TrialOutcome], goal: Goal) -> EarlyStoppingReport:
    """
    Return what early stopping saved in a study, and how often it was probably wrong.

    Pure. A stopped trial is taken to have saved what the completed trials that are longer than it are longer
    on average; nothing if none is. A shadow trial is a false stop if its end is among the best tenth of all
    ends, at least one.

    :param trials: those that have ended, but for failed and cancelled ones.
    """
    stopped = [trial for trial in trials if trial.ending is Ending.STOPPED]
    whole = [trial for trial in trials if trial.ending is not Ending.STOPPED]
    shadows = [trial for trial in whole if trial.ending is Ending.SHADOW]
    saved = sum(_saved_seconds(trial, whole) for trial in stopped)
    run = sum(trial.seconds for trial in trials)
    sign = -1.0 if goal is Goal.MINIMIZE else 1.0
    ends = sorted(
        (sign * end for trial in whole if (end := _finite(trial.final_value)) is not None), reverse=True
    )
    places = math.ceil(TOP_SHARE * len(ends))
    false_stops = sum(
        (end := _finite(trial.final_value)) is not None and sign * end >= ends[places - 1]
        for trial in shadows
    )
    return EarlyStoppingReport(
        trials=len(trials),
        stopped=len(stopped),
        saved_seconds=saved,
        saved_share=saved / (run + saved) if saved > 0 else 0.0,
        shadows=len(shadows),
        false_stops=false_stops,
        false_stop_interval=wilson_interval(false_stops, len(shadows)),
    )


def _saved_seconds(trial: TrialOutcome, whole: Sequence[TrialOutcome]) -> float:
    longer = [other.seconds - trial.seconds for other in whole if other.seconds > trial.seconds]
    return sum(longer) / len(longer) if longer else 0.0


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
