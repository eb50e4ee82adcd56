"""The parameters of a study: what is read, and what is refused, by the path of the field."""

from __future__ import annotations

from typing import Any

import pytest

from training_api.dialects.vertex_v1.tuning.parameters import read_parameters
from training_api.job.tuning.search_terms import ParameterKind, ScaleType, SearchAlgorithm, SearchParameter
from training_api.job.violations import Violations

BAYESIAN, GRID = SearchAlgorithm.BAYESIAN, SearchAlgorithm.GRID


def read(*parameters: dict[str, Any], algorithm: SearchAlgorithm = BAYESIAN) -> tuple[SearchParameter, ...]:
    rules = Violations()
    found = read_parameters(rules, parameters, algorithm)
    assert rules.found == []
    return found


def broken(*parameters: dict[str, Any], algorithm: SearchAlgorithm = BAYESIAN) -> dict[str, str]:
    rules = Violations()
    read_parameters(rules, parameters, algorithm)
    return {each.field.removeprefix("studySpec.parameters"): each.description for each in rules.found}


def test_all_kinds_are_read_with_their_scales_in_the_order_of_the_request() -> None:
    found = read(
        {"parameterId": "d", "doubleValueSpec": {"maxValue": 1.5}, "scaleType": "UNIT_LINEAR_SCALE"},
        {
            "parameterId": "i",
            "integerValueSpec": {"minValue": "-3", "maxValue": "9007199254740992"},
        },
        {"parameterId": "c", "categoricalValueSpec": {"values": ["adam", ""]}},
        {
            "parameterId": "s",
            "discreteValueSpec": {"values": [1, 2.5, 4]},
            "scaleType": "UNIT_REVERSE_LOG_SCALE",
        },
    )

    assert found == (
        SearchParameter(name="d", kind=ParameterKind.DOUBLE, low=0, high=1.5, scale=ScaleType.LINEAR),
        SearchParameter(name="i", kind=ParameterKind.INTEGER, low=-3, high=2**53),
        SearchParameter(name="c", kind=ParameterKind.CATEGORICAL, values=("adam", "")),
        SearchParameter(
            name="s", kind=ParameterKind.DISCRETE, values=(1.0, 2.5, 4.0), scale=ScaleType.REVERSE_LOG
        ),
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"doubleValueSpec": {"minValue": 1, "maxValue": 2, "defaultValue": 1.5}},
        {"integerValueSpec": {"minValue": "1", "maxValue": "2", "defaultValue": "2"}},
        {"categoricalValueSpec": {"values": ["a", "b"], "defaultValue": "b"}},
        {"discreteValueSpec": {"values": [1, 2], "defaultValue": 1.4}},
    ],
)
def test_a_default_value_changes_nothing(spec: dict[str, Any]) -> None:
    ((name, values),) = spec.items()
    without = {key: value for key, value in values.items() if key != "defaultValue"}

    assert read({"parameterId": "a", **spec}) == read({"parameterId": "a", name: without})


@pytest.mark.parametrize(
    ("spec", "path", "said"),
    [
        ({}, "", "must have its values, in one of doubleValueSpec, integerValueSpec"),
        ({"doubleValueSpec": {}}, ".doubleValueSpec", "must have minValue and maxValue"),
        (
            {"doubleValueSpec": {"minValue": 2, "maxValue": 1}},
            ".doubleValueSpec.maxValue",
            "must be at least minValue, 2; got 1",
        ),
        ({"doubleValueSpec": {"maxValue": "NaN"}}, ".doubleValueSpec.maxValue", "must be finite; got nan"),
        (
            {"doubleValueSpec": {"minValue": -1.7e308, "maxValue": 1.7e308}},
            ".doubleValueSpec.maxValue",
            "must be nearer to minValue",
        ),
        (
            {"doubleValueSpec": {"maxValue": 1}, "scaleType": "UNIT_LOG_SCALE"},
            ".doubleValueSpec.minValue",
            "must be more than 0 with a logarithmic scaleType; got 0",
        ),
        (
            {"doubleValueSpec": {"maxValue": 1, "defaultValue": 2}},
            ".doubleValueSpec.defaultValue",
            "must be from 0 to 1; got 2",
        ),
        (
            {"integerValueSpec": {"maxValue": "9007199254740993"}},
            ".integerValueSpec.maxValue",
            "must be from -2^53 to 2^53; got 9007199254740993",
        ),
        ({"categoricalValueSpec": {}}, ".categoricalValueSpec.values", "is required"),
        (
            {"categoricalValueSpec": {"values": ["a", "b", "a"]}},
            ".categoricalValueSpec.values[2]",
            "must be unique; got 'a' again",
        ),
        (
            {"categoricalValueSpec": {"values": ["a"], "defaultValue": "b"}},
            ".categoricalValueSpec.defaultValue",
            "must be one of values; got 'b'",
        ),
        (
            {"categoricalValueSpec": {"values": ["a"]}, "scaleType": "UNIT_LOG_SCALE"},
            ".scaleType",
            "must not be set with categoricalValueSpec; got UNIT_LOG_SCALE",
        ),
        ({"discreteValueSpec": {}}, ".discreteValueSpec.values", "is required"),
        (
            {"discreteValueSpec": {"values": [1, 1 + 1e-11]}},
            ".discreteValueSpec.values[1]",
            "must be more than the value before it, 1, by at least 1e-10; got 1.00000000001",
        ),
        (
            {"discreteValueSpec": {"values": [*range(1001)]}},
            ".discreteValueSpec.values",
            "must be at most 1000 values; got 1001",
        ),
        (
            {"discreteValueSpec": {"values": [1, "Infinity"]}},
            ".discreteValueSpec.values[1]",
            "must be finite; got inf",
        ),
        (
            {"discreteValueSpec": {"values": [0, 1]}, "scaleType": "UNIT_LOG_SCALE"},
            ".discreteValueSpec.values",
            "must all be more than 0 with a logarithmic scaleType; got 0",
        ),
    ],
)
def test_a_broken_rule_is_named_by_its_path(spec: dict[str, Any], path: str, said: str) -> None:
    ((field, description),) = broken({"parameterId": "a", **spec}).items()

    assert field == f"[0]{path}"
    assert description.startswith(said)


@pytest.mark.parametrize(
    ("name", "said"),
    [("", "is required"), ("a b", "must start with a letter"), ("a", "must be unique, parameters[0] has it")],
)
def test_a_parameter_has_a_name_of_its_own(name: str, said: str) -> None:
    values = {"doubleValueSpec": {"maxValue": 1}}

    found = broken({"parameterId": "a", **values}, {"parameterId": name, **values})

    assert [*found] == ["[1].parameterId"]
    assert found["[1].parameterId"].startswith(said)


def test_a_grid_has_no_doubles() -> None:
    found = broken({"parameterId": "a", "doubleValueSpec": {"maxValue": 1}}, algorithm=GRID)

    assert "with GRID_SEARCH" in found["[0].doubleValueSpec"]


def test_conditional_parameters_are_refused_with_a_way_out() -> None:
    found = broken(
        {
            "parameterId": "a",
            "categoricalValueSpec": {"values": ["x", "y"]},
            "conditionalParameterSpecs": [{"parentCategoricalValues": {"values": ["x"]}}],
        }
    )

    assert "run a tuning job for each value of the parent" in found["[0].conditionalParameterSpecs"]


def test_there_are_parameters_but_not_too_many() -> None:
    assert broken() == {"": "is required: at least one parameter to search"}
    assert broken(*({"parameterId": str(number)} for number in range(65))) == {
        "": "must be at most 64 parameters; got 65"
    }
