"""What jobs cost, at prices that are given and at no others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.fakes.fake_service import EPOCH, make_job
from tests.support.fakes.tuning_jobs import make_trial, make_tuning_job
from training_api.dialects.ml_v1.cost import Meter, PriceList, parse_max_cost, parse_prices, running_seconds
from training_api.dialects.ml_v1.resources import TrainingInput
from training_api.errors import InvalidPrice

SOURCE = "extra.prices of connection 'training_default'"
PRICES = {"n1-standard-4": 1.0, "n1-highmem-8": 10.0, "n1-highcpu-8": 3.0, "NVIDIA_TESLA_T4": 100.0}
NOW = EPOCH + timedelta(seconds=100)


def make_list(**changes: float) -> PriceList:
    return PriceList(source=SOURCE, per_second={**PRICES, **changes}, currency="EUR")


def cost_per_second(**fields: Any) -> float:
    return make_list(standard_gpu=7.0, **{"a2-highgpu-1g": 50.0}).cost_per_second(
        TrainingInput.model_validate(fields)
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 1.0),  # BASIC: one n1-standard-4
        ({"scaleTier": "STANDARD_1"}, 5 * 3.0 + 3 * 1.0),
        ({"scaleTier": "BASIC_GPU"}, 7.0),
        ({"scaleTier": "CUSTOM", "masterType": "n1-highmem-8"}, 10.0),
        (
            {
                "scaleTier": "CUSTOM",
                "masterType": "n1-highmem-8",
                "workerType": "n1-standard-4",
                "workerCount": "4",
                "parameterServerType": "n1-highcpu-8",
                "parameterServerCount": 2,
                "evaluatorType": "n1-standard-4",
                "evaluatorCount": 1,
            },
            10.0 + 4 * 1.0 + 2 * 3.0 + 1.0,
        ),
        (
            {
                "scaleTier": "CUSTOM",
                "masterType": "n1-standard-4",
                "workerType": "n1-standard-4",
                "workerCount": 2,
                "workerConfig": {"acceleratorConfig": {"count": "2", "type": "NVIDIA_TESLA_T4"}},
            },
            3 * 1.0 + 2 * 2 * 100.0,
        ),
        ({"scaleTier": "CUSTOM", "masterType": "standard_gpu"}, 7.0),
        (
            {
                "scaleTier": "CUSTOM",
                "masterType": "a2-highgpu-1g",
                "masterConfig": {"acceleratorConfig": {"count": 1, "type": "NVIDIA_TESLA_A100"}},
            },
            50.0,  # the machine's own: priced with it
        ),
    ],
)
def test_every_replica_and_accelerator_is_counted_once(fields: dict[str, Any], expected: float) -> None:
    assert cost_per_second(**fields) == expected


def test_a_role_without_replicas_needs_no_price() -> None:
    assert cost_per_second(scaleTier="CUSTOM", masterType="n1-standard-4", workerType="n1-ultramem-40") == 1.0


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ({"scaleTier": "CUSTOM", "masterType": "n1-standard-16"}, "n1-standard-16"),
        (
            {
                "scaleTier": "CUSTOM",
                "masterType": "n1-standard-4",
                "masterConfig": {"acceleratorConfig": {"count": 1, "type": "NVIDIA_TESLA_P4"}},
            },
            "NVIDIA_TESLA_P4",
        ),
    ],
)
def test_a_missing_price_names_the_type_and_the_setting(fields: dict[str, Any], missing: str) -> None:
    with pytest.raises(InvalidPrice) as refused:
        cost_per_second(**fields)

    message = str(refused.value)
    assert message.startswith(f"{SOURCE} has no price for '{missing}'; it has NVIDIA_TESLA_T4,")
    assert f'{{"{missing}": 0.0001}}' in message


def test_a_job_runs_from_its_start_to_its_end_or_to_now() -> None:
    started = make_job(start_time=EPOCH + timedelta(seconds=5))

    assert running_seconds(make_job(), NOW) == 0.0
    assert running_seconds(started, NOW) == 95.0
    ended = started.model_copy(update={"end_time": EPOCH + timedelta(seconds=25)})
    assert running_seconds(ended, NOW) == 20.0


def test_trials_that_ran_side_by_side_are_added_up() -> None:
    job = make_tuning_job(
        make_trial(1, 0.5, seconds=30),
        make_trial(2, None, state="FAILED", seconds=5),
        make_trial(3, None, state="RUNNING", start=80, seconds=None),
    )

    cost = Meter(prices=make_list()).cost(job, NOW)

    assert cost is not None
    assert cost.model_dump() == {"total": 55.0, "currency": "EUR", "per_second": 1.0, "seconds": 55.0}


def test_without_a_limit_a_missing_price_means_that_nothing_is_known() -> None:
    meter = Meter(prices=PriceList(source=SOURCE, per_second={}))

    assert meter.cost(make_tuning_job(), NOW) is None
    assert meter.text(None) == ""
    assert not meter.is_spent(None)


def test_with_a_limit_a_missing_price_is_an_error() -> None:
    meter = Meter(prices=PriceList(source=SOURCE, per_second={}), max_cost=1.0)

    with pytest.raises(
        InvalidPrice, match=r"extra\.prices of connection 'training_default' has no price for 'n1-"
    ):
        meter.cost(make_tuning_job(), NOW)


@pytest.mark.parametrize(("limit", "is_spent"), [(9.99, True), (10.0, True), (10.01, False)])
def test_the_limit_is_reached_at_the_limit(limit: float, is_spent: bool) -> None:
    meter = Meter(prices=make_list(), max_cost=limit)

    cost = meter.cost(make_tuning_job(make_trial(1, 0.5, seconds=10)), NOW)

    assert meter.is_spent(cost) is is_spent
    assert meter.text(cost) == f"cost so far 10 EUR of max_cost {limit:g} EUR"


@pytest.mark.parametrize("given", [{"a": "0.5", "b": 0}, '{"a": 0.5, "b": 0}'])
def test_prices_are_an_object_or_its_text(given: object) -> None:
    assert parse_prices(given, SOURCE, "USD") == PriceList(
        source=SOURCE, per_second={"a": 0.5, "b": 0.0}, currency="USD"
    )


@pytest.mark.parametrize("given", [None, "", " ", {}, "{}"])
def test_no_prices_are_an_empty_list(given: object) -> None:
    assert parse_prices(given, SOURCE).per_second == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{", "must be JSON like .*, got '{'"),
        ("[1]", "must be an object of prices per second, .* got \\[1\\]"),
        ({"n1-standard-4": -1}, r"\['n1-standard-4'\] must be a number >= 0, got -1"),
        ({"n1-standard-4": "NaN"}, "must be a number >= 0, got 'NaN'"),
        ({"n1-standard-4": True}, "must be a number >= 0, got True"),
        ({"n1-standard-4": None}, "must be a number >= 0, got None"),
        ('{"n1-standard-4": Infinity}', "must be a number >= 0, got inf"),
    ],
)
def test_prices_that_cannot_be_read_are_refused_by_name(given: object, message: str) -> None:
    with pytest.raises(InvalidPrice, match=message) as refused:
        parse_prices(given, SOURCE)

    assert str(refused.value).startswith(SOURCE)


@pytest.mark.parametrize(("given", "limit"), [(None, None), ("", None), ("2.5", 2.5), (3, 3.0)])
def test_a_limit_may_come_from_a_template(given: Any, limit: float | None) -> None:
    assert parse_max_cost(given) == limit


@pytest.mark.parametrize("given", [0, -1, "x", "nan", "inf", True])
def test_a_limit_that_is_none_is_refused(given: Any) -> None:
    with pytest.raises(InvalidPrice, match="max_cost must be"):
        parse_max_cost(given)
