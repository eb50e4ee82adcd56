"""
What a job costs: machines x seconds of running x the price of the machine.

The only prices are those of the settings.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from training_api.dialects.ml_v1.resources import Job, ScaleTier, TrainingInput
from training_api.dialects.ml_v1.roles import machines_of
from training_api.dialects.ml_v1.trials import study_of, trial_rows
from training_api.errors import InvalidPrice
from training_api.job.machines import MACHINE_TYPES
from training_api.job.results import Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """
    Prices by machine type and by accelerator, each for one machine or accelerator per second.

    :param source: the setting that they come from, for messages.
    :param currency: what amounts are shown in; empty: amounts without a unit.
    """

    source: str
    per_second: Mapping[str, float]
    currency: str = ""

    def cost_per_second(self, training: TrainingInput) -> float:
        """
        Return the cost per second of one run's replicas; for a tuning job, of one trial.

        Pure. A machine type that comes with GPUs has one price for both.

        :raises InvalidPrice: a machine type or an accelerator of the job has no price.
        """
        return sum(amount * self._price(name) for name, amount in _parts(training))

    def show(self, amount: float) -> str:
        """Return ``amount`` for people: ``0.0421 EUR``."""
        return f"{amount:.4g} {self.currency}".rstrip()

    def _price(self, name: str) -> float:
        if name in self.per_second:
            return self.per_second[name]
        known = f"; it has {', '.join(sorted(self.per_second))}" if self.per_second else ""
        raise InvalidPrice(
            f"{self.source} has no price for {name!r}{known}; add its price per second, like "
            f"{{{json.dumps(name)}: 0.0001}}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """
    What a wait knows of money.

    :param max_cost: the job is cancelled once it has cost so much; ``None``: no limit.
    """

    prices: PriceList
    max_cost: float | None = None

    def cost_per_second(self, job: Job) -> float | None:
        """
        Return the cost per second of one run's replicas; ``None`` if a price is missing.

        :raises InvalidPrice: a price is missing, and there is a limit, which could not be kept.
        """
        try:
            return self.prices.cost_per_second(job.training_input or TrainingInput())
        except InvalidPrice:
            if self.max_cost is None:
                return None
            raise

    def cost(self, job: Job, now: datetime) -> Cost | None:
        """
        Return what ``job`` has cost until ``now``; ``None`` if a price is missing.

        :raises InvalidPrice: as above.
        """
        rate = self.cost_per_second(job)
        if rate is None:
            return None
        seconds = running_seconds(job, now)
        return Cost(total=rate * seconds, currency=self.prices.currency, per_second=rate, seconds=seconds)

    def is_spent(self, cost: Cost | None) -> bool:
        """Whether ``cost`` has reached the limit."""
        return self.max_cost is not None and cost is not None and cost.total >= self.max_cost

    def text(self, cost: Cost | None) -> str:
        """Return ``cost so far 0.12 EUR of max_cost 1 EUR``, or nothing where no price is known."""
        if cost is None:
            return ""
        limit = f" of max_cost {self.prices.show(self.max_cost)}" if self.max_cost is not None else ""
        return f"cost so far {self.prices.show(cost.total)}{limit}"


def running_seconds(job: Job, now: datetime) -> float:
    """
    Return how long the replicas of ``job`` ran.

    The job's time in RUNNING, or the time of all trials together.

    Pure. Trials run side by side, each on machines of its own, so theirs are added up; a trial that the
    service does not show is not counted.
    """
    if study_of(job) is not None:
        return sum(row.seconds or 0.0 for row in trial_rows(job, now))
    if job.start_time is None:
        return 0.0
    return max(((job.end_time or now) - job.start_time).total_seconds(), 0.0)


def parse_prices(value: object, source: str, currency: object = "") -> PriceList:
    """
    Return the prices of a setting; empty: none.

    The setting is an object of name and price per second, or its JSON text.

    Pure.

    :param source: how the setting is called, for messages.
    :raises InvalidPrice: not such an object, or a price that is no finite number >= 0.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else None
        except ValueError as error:
            raise InvalidPrice(
                f'{source} must be JSON like {{"n1-standard-4": 0.0001}}, got {value!r:.200}: {error}; correct the setting'
            ) from error
    if not value:
        return PriceList(source=source, per_second={}, currency=str(currency or ""))
    if not isinstance(value, Mapping):
        raise InvalidPrice(
            f'{source} must be an object of prices per second, like {{"n1-standard-4": 0.0001}}, '
            f"got {value!r:.200}; correct the setting"
        )
    prices = {str(name): _amount(price, f"{source}[{name!r}]", 0.0) for name, price in value.items()}
    return PriceList(source=source, per_second=prices, currency=str(currency or ""))


def parse_max_cost(value: float | str | None) -> float | None:
    """
    Return the limit that a task was given; empty text, as of a template, is none.

    :raises InvalidPrice: not above 0.
    """
    if value is None or value == "":
        return None
    limit = _amount(value, "max_cost", 0.0)
    if not limit:
        raise InvalidPrice(f"max_cost must be above 0, got {value!r}; without a limit, leave it out")
    return limit


def _amount(value: Any, name: str, least: float) -> float:
    try:
        amount = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        amount = math.nan
    if not math.isfinite(amount) or amount < least:
        raise InvalidPrice(
            f"{name} must be a number >= {least:g}, got {value!r}; write it in digits, like 0.5"
        )
    return amount


def _parts(training: TrainingInput) -> Iterator[tuple[str, float]]:
    """Yield what has a price: machine type or accelerator, and how many the job has at a time."""
    tier = training.scale_tier or ScaleTier.BASIC
    if tier is ScaleTier.BASIC_TPU:
        yield tier.value, 1  # a tier whose machines are not known is priced as a whole
    for role in machines_of(training):
        if role.count <= 0:
            continue
        yield role.machine, role.count
        accelerator = role.config.accelerator_config if role.config else None
        known = MACHINE_TYPES.get(role.machine)
        if accelerator and accelerator.type and accelerator.count and not (known and known.gpus):
            yield accelerator.type.value, role.count * accelerator.count
