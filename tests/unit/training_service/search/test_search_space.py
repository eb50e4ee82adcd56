"""The search space: its values and its words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes.spaces import active_names, below, category, discrete, double, integer, spaces, trees
from training_api.job.tuning.search_terms import ParameterKind, ScaleType, SearchParameter
from training_service.search.search_space import Parameter, SearchSpace
from training_service.search.unit_cube import UnitCube

UNIFORM = st.floats(0, 1)


def test_the_parameters_of_a_study_become_a_space() -> None:
    space = SearchSpace.of(
        [
            SearchParameter(name="lr", kind=ParameterKind.DOUBLE, low=1e-4, high=0.1, scale=ScaleType.LOG),
            SearchParameter(name="units", kind=ParameterKind.INTEGER, low=16.0, high=256.0),
            SearchParameter(name="optimizer", kind=ParameterKind.CATEGORICAL, values=("adam", "sgd")),
            SearchParameter(name="batch", kind=ParameterKind.DISCRETE, values=(16.0, 32.5)),
        ]
    )

    assert space.parameters == (
        double("lr", 1e-4, 0.1, ScaleType.LOG),
        integer("units", 16, 256),
        category("optimizer", "adam", "sgd"),
        discrete("batch", 16.0, 32.5),
    )


def test_values_are_written_as_the_api_writes_them() -> None:
    space = SearchSpace(
        (double("lr"), integer("units"), category("optimizer"), discrete("batch"), discrete("rate"))
    )
    assignment = {"lr": 0.026711152525921437, "units": 6, "optimizer": "a", "batch": 16.0, "rate": 0.1}

    rendered = space.render(assignment)

    assert rendered == {
        "lr": "0.026711152525921437",
        "units": "6",
        "optimizer": "a",
        "batch": "16",
        "rate": "0.1",
    }


@given(space=st.one_of(spaces(), trees()), data=st.data())
def test_what_was_written_reads_back_as_the_same_values(space: SearchSpace, data: st.DataObject) -> None:
    point = np.array([[data.draw(UNIFORM) for _ in space.parameters]])
    assignment = UnitCube.of(space).assignment(UnitCube.of(space).spread(point)[0])

    parsed = space.parse(space.render(assignment))

    assert space.contains(assignment)
    assert assignment.keys() == active_names(space, assignment)
    assert parsed == assignment
    assert [type(value) for value in parsed.values()] == [type(value) for value in assignment.values()]


@pytest.mark.parametrize(
    "rendered",
    [{"n": "9"}, {"n": "1.5"}, {"n": "x"}, {"m": "1"}, {}, {"n": "1", "m": "1"}],
    ids=["too large", "not whole", "no number", "another name", "none", "one too many"],
)
def test_text_that_is_no_assignment_is_refused(rendered: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        SearchSpace((integer("n", 1, 8),)).parse(rendered)


@pytest.mark.parametrize(
    ("assignment", "inside"),
    [
        ({"n": 3, "c": "a"}, True),
        ({"n": 3.0, "c": "a"}, False),
        ({"n": True, "c": "a"}, False),
        ({"n": 9, "c": "a"}, False),
        ({"n": 3, "c": "z"}, False),
        ({"n": 3}, False),
        ({"n": 3, "c": "a", "x": 1}, False),
    ],
)
def test_a_space_contains_whole_assignments_of_its_values_only(
    assignment: dict[str, Any], inside: bool
) -> None:
    assert SearchSpace((integer("n"), category("c"))).contains(assignment) is inside


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": ParameterKind.DOUBLE, "low": 2.0, "high": 1.0},
        {"kind": ParameterKind.DOUBLE, "low": 0.0, "high": float("inf")},
        {"kind": ParameterKind.INTEGER, "low": 0.5, "high": 1.0},
        {"kind": ParameterKind.CATEGORICAL},
        {"kind": ParameterKind.CATEGORICAL, "values": ("a", "a")},
        {"kind": ParameterKind.DOUBLE, "low": 0.0, "high": 1.0, "scale": ScaleType.LOG},
        {"kind": ParameterKind.DISCRETE, "values": (-1.0, 1.0), "scale": ScaleType.REVERSE_LOG},
    ],
)
def test_a_dimension_that_cannot_be_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="'rate'"):
        Parameter(name="rate", **wrong)


def test_two_parameters_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="each name once"):
        SearchSpace((double("x"), integer("x")))


KIND = category("kind", "linear", "deep")
LAYERS = below(KIND, integer("layers", 1, 3), "deep")
UNITS = below(LAYERS, discrete("units", 8.0, 16.0), 2, 3)
TREE = SearchSpace((KIND, LAYERS, UNITS, double("rate")))


@pytest.mark.parametrize(
    "rendered",
    [
        {"kind": "linear", "rate": "0.5"},
        {"kind": "deep", "layers": "1", "rate": "0.5"},
        {"kind": "deep", "layers": "3", "units": "8", "rate": "0.5"},
    ],
)
def test_a_trial_has_the_parameters_whose_conditions_hold(rendered: dict[str, str]) -> None:
    assignment = TREE.parse(rendered)

    assert TREE.contains(assignment)
    assert TREE.render(assignment) == rendered


@pytest.mark.parametrize(
    "rendered",
    [
        {"kind": "linear", "layers": "1", "rate": "0.5"},
        {"kind": "linear", "units": "8", "rate": "0.5"},
        {"kind": "deep", "rate": "0.5"},
        {"kind": "deep", "layers": "1", "units": "8", "rate": "0.5"},
        {"kind": "deep", "layers": "2", "rate": "0.5"},
    ],
)
def test_a_trial_has_no_other_parameters(rendered: dict[str, str]) -> None:
    parameters = {each.name: each for each in TREE.parameters}

    assert not TREE.contains({name: parameters[name].parse(text) for name, text in rendered.items()})
    with pytest.raises(ValueError, match="an assignment must name"):
        TREE.parse(rendered)


@pytest.mark.parametrize(
    "parameters",
    [
        (LAYERS, KIND),
        (LAYERS,),
        (double("x"), below(double("x"), integer("n"), 0.5)),
        (KIND, below(KIND, integer("n"), "wide")),
        (KIND, below(KIND, integer("n"), "deep", "deep")),
        (KIND, below(KIND, integer("n"))),
        (integer("m", 1, 3), below(integer("m"), integer("n"), 4)),
    ],
    ids=["after", "absent", "a double", "no value of the parent", "twice", "no value", "too large"],
)
def test_a_condition_that_cannot_be_is_refused_by_name(parameters: tuple[Parameter, ...]) -> None:
    with pytest.raises(ValueError, match=r"parameter '(n|layers|kind|m)'"):
        SearchSpace(parameters)
