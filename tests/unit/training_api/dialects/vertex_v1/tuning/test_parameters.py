"""The parameters of a study: what is read, and what is refused, by the path of the field."""

from __future__ import annotations

from typing import Any

import pytest

from training_api.dialects.vertex_v1.tuning.parameters import read_parameters
from training_api.job.tuning.search_terms import (
    Condition,
    ParameterKind,
    ScaleType,
    SearchAlgorithm,
    SearchParameter,
)
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


def test_there_are_parameters_but_not_too_many() -> None:
    assert broken() == {"": "is required: at least one parameter to search"}
    assert broken(*({"parameterId": str(number)} for number in range(65))) == {
        "": "must be at most 64 parameters; got 65"
    }


# --- conditional parameters

KIND = {"parameterId": "kind", "categoricalValueSpec": {"values": ["linear", "deep"]}}
LAYERS = {"parameterId": "layers", "integerValueSpec": {"minValue": "1", "maxValue": "3"}}
SIZE = {"parameterId": "size", "discreteValueSpec": {"values": [0.5, 2]}}
RATE = {"parameterId": "rate", "doubleValueSpec": {"maxValue": 1}}


def on(parameter: dict[str, Any], field: str, *values: Any) -> dict[str, Any]:
    """Return a ConditionalParameterSpec."""
    return {field: {"values": list(values)}, "parameterSpec": parameter}


def with_children(parameter: dict[str, Any], *children: dict[str, Any]) -> dict[str, Any]:
    return {**parameter, "conditionalParameterSpecs": list(children)}


def test_conditional_parameters_follow_their_parents_at_any_depth() -> None:
    size = with_children(SIZE, on(RATE, "parentDiscreteValues", 2))
    layers = with_children(LAYERS, on(size, "parentIntValues", "2", "3"))
    found = read(
        with_children(KIND, on(layers, "parentCategoricalValues", "deep")), {**RATE, "parameterId": "z"}
    )

    assert [(each.name, each.condition) for each in found] == [
        ("kind", None),
        ("layers", Condition(parent="kind", values=("deep",))),
        ("size", Condition(parent="layers", values=(2, 3))),
        ("rate", Condition(parent="size", values=(2.0,))),
        ("z", None),
    ]


def test_a_discrete_value_matches_within_an_epsilon_and_counts_once() -> None:
    parent = {"parameterId": "a", "discreteValueSpec": {"values": [0.1, 0.3, 0.3000000002]}}
    _, child = read(with_children(parent, on(RATE, "parentDiscreteValues", 0.1 + 0.2, 0.3, 0.30000000022)))

    assert child.condition == Condition(parent="a", values=(0.3, 0.3000000002))


@pytest.mark.parametrize(
    ("parent", "child", "path", "said"),
    [
        (
            KIND,
            on(RATE, "parentCategoricalValues", "deep", "wide"),
            ".parentCategoricalValues.values[1]",
            "must be one of the values of 'kind'; got 'wide'",
        ),
        (LAYERS, on(RATE, "parentIntValues", "4"), ".parentIntValues.values[0]", "must be one of the values"),
        (
            SIZE,
            on(RATE, "parentDiscreteValues", 0.5 + 2e-10),
            ".parentDiscreteValues.values[0]",
            "must be one of the values of 'size'; got '0.5000000002'",
        ),
        (
            SIZE,
            on(RATE, "parentDiscreteValues", "NaN"),
            ".parentDiscreteValues.values[0]",
            "must be one of the values",
        ),
        (KIND, on(RATE, "parentCategoricalValues"), ".parentCategoricalValues.values", "is required"),
        (KIND, {"parameterSpec": RATE}, ".parentCategoricalValues", "must be parentCategoricalValues"),
        (
            LAYERS,
            on(RATE, "parentDiscreteValues", 1),
            ".parentDiscreteValues",
            "must be parentIntValues, the kind of values of 'layers'; got parentDiscreteValues",
        ),
        (
            {**RATE, "parameterId": "parent"},
            on(LAYERS, "parentDiscreteValues", 1),
            "",
            "must not depend on 'parent', a doubleValueSpec; list the values",
        ),
        (
            KIND,
            on({**RATE, "doubleValueSpec": {}}, "parentCategoricalValues", "deep"),
            ".parameterSpec.doubleValueSpec",
            "must have minValue and maxValue",
        ),
        (
            KIND,
            on({**RATE, "parameterId": "kind"}, "parentCategoricalValues", "deep"),
            ".parameterSpec.parameterId",
            "must be unique, parameters[0] has it already; got 'kind'",
        ),
    ],
)
def test_a_condition_that_cannot_hold_is_named_by_its_path(
    parent: dict[str, Any], child: dict[str, Any], path: str, said: str
) -> None:
    ((field, description),) = broken(with_children(parent, child)).items()

    assert field == f"[0].conditionalParameterSpecs[0]{path}"
    assert description.startswith(said)


def test_a_conditional_parameter_has_a_name_and_values() -> None:
    assert {*broken(with_children(KIND, {"parentCategoricalValues": {"values": ["deep"]}}))} == {
        "[0].conditionalParameterSpecs[0].parameterSpec.parameterId",
        "[0].conditionalParameterSpecs[0].parameterSpec",
    }


def test_a_name_is_one_parameter_even_if_its_conditions_never_hold_together() -> None:
    found = broken(
        with_children(KIND, *(on(RATE, "parentCategoricalValues", of) for of in ("linear", "deep")))
    )

    ((field, description),) = found.items()
    assert field == "[0].conditionalParameterSpecs[1].parameterSpec.parameterId"
    assert "parameters[0].conditionalParameterSpecs[0].parameterSpec has it already" in description


def test_a_grid_has_no_doubles_below_a_parent_either() -> None:
    found = broken(with_children(KIND, on(RATE, "parentCategoricalValues", "deep")), algorithm=GRID)

    assert {*found} == {"[0].conditionalParameterSpecs[0].parameterSpec.doubleValueSpec"}


def test_conditional_parameters_count_as_parameters() -> None:
    children = (
        on({**RATE, "parameterId": f"p{number}"}, "parentCategoricalValues", "deep") for number in range(64)
    )

    assert broken(with_children(KIND, *children)) == {"": "must be at most 64 parameters; got 65"}
