"""The next trial: inside the space, the same every time, never one that was tried, and good."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.fakes.spaces import (
    active_names,
    below,
    category,
    cube,
    discrete,
    double,
    integer,
    spaces,
    trees,
)
from tests.support.speed import scaled
from training_api.job.tuning.search_terms import Goal, ScaleType, SearchAlgorithm
from training_service.search.grid import Grid
from training_service.search.search_space import SearchSpace
from training_service.search.suggest import Observation, suggest

BAYESIAN = SearchAlgorithm.BAYESIAN
MIXED = SearchSpace(
    (
        double("lr", 1e-5, 1.0, ScaleType.LOG),
        integer("units", 1, 512, ScaleType.LOG),
        double("momentum", 0.5, 0.999, ScaleType.REVERSE_LOG),
        category("optimizer", "adam", "sgd", "rmsprop"),
        discrete("dropout", 0.0, 0.1, 0.5),
    )
)
COUNTABLE = SearchSpace((integer("n", 1, 4), category("c"), discrete("d")))


def mixed_loss(x: Mapping[str, Any]) -> float:
    good = {"adam": 0.0, "sgd": 0.5, "rmsprop": 0.2}[x["optimizer"]]
    return (
        (math.log10(x["lr"]) + 2) ** 2
        + (math.log2(x["units"]) - 6) ** 2 / 9
        + good
        + x["dropout"]
        + x["momentum"]
    )


def run_study(
    space: SearchSpace,
    evaluate: Callable[[Mapping[str, Any]], float | None],
    trials: int,
    parallel: int = 1,
    seed: int = 0,
    goal: Goal = Goal.MINIMIZE,
    algorithm: SearchAlgorithm = BAYESIAN,
) -> list[Observation]:
    """
    Suggest and evaluate until there are ``trials``.

    ``parallel`` run at any time, and the oldest ends first.
    """
    history: list[Observation] = []
    running: list[Mapping[str, Any]] = []
    while len(history) < trials:
        while len(running) < min(parallel, trials - len(history)):
            assignment = suggest(space, history, running, seed, goal=goal, algorithm=algorithm)
            assert assignment is not None
            assert space.contains(assignment)
            running.append(assignment)
        oldest = running.pop(0)
        history.append(Observation(assignment=oldest, value=evaluate(oldest)))
    return history


@settings(max_examples=25, deadline=None)
@given(
    space=spaces(),
    seed=st.integers(-(2**63), 2**64),
    algorithm=st.sampled_from([BAYESIAN, SearchAlgorithm.RANDOM]),
    goal=st.sampled_from([Goal.MINIMIZE, Goal.MAXIMIZE]),
    values=st.lists(st.none() | st.floats(), min_size=14, max_size=14),
)
def test_any_space_and_any_report_gives_new_assignments_inside_the_space(
    space: SearchSpace, seed: int, algorithm: SearchAlgorithm, goal: Goal, values: list[float | None]
) -> None:
    reports = iter(values)

    history = run_study(
        space, lambda _: next(reports), len(values), parallel=3, seed=seed, goal=goal, algorithm=algorithm
    )

    keys = {space.key(trial.assignment) for trial in history}
    assert len(keys) == (min(len(values), Grid(space).size) if space.is_countable else len(values))


@pytest.mark.parametrize("algorithm", [BAYESIAN, SearchAlgorithm.RANDOM])
def test_a_countable_space_is_tried_out_before_anything_repeats(algorithm: SearchAlgorithm) -> None:
    history = run_study(COUNTABLE, lambda x: x["n"] + x["d"], 40, parallel=4, algorithm=algorithm)

    assert len({COUNTABLE.key(trial.assignment) for trial in history[:36]}) == Grid(COUNTABLE).size == 36


@pytest.mark.parametrize(
    "space", [SearchSpace((double("x", 3.0, 3.0),)), SearchSpace((category("c", "only"),))]
)
def test_a_space_of_one_point_has_that_point(space: SearchSpace) -> None:
    history = run_study(space, lambda _: 1.0, 15)

    assert [trial.assignment for trial in history] == [Grid(space).assignment_at(0)] * 15


def test_a_grid_is_complete_and_then_ends() -> None:
    grid = SearchAlgorithm.GRID
    history = run_study(COUNTABLE, lambda x: None if x["n"] == 2 else 1.0, 34, algorithm=grid)
    running = []
    for _ in range(2):
        running.append(suggest(COUNTABLE, history, running, 0, goal=Goal.MINIMIZE, algorithm=grid))

    tried = {COUNTABLE.key(each) for each in [*(trial.assignment for trial in history), *running]}
    assert len(tried) == Grid(COUNTABLE).size
    assert suggest(COUNTABLE, history, running, 0, goal=Goal.MINIMIZE, algorithm=grid) is None


@settings(max_examples=50, deadline=None)
@given(
    space=trees(),
    seed=st.integers(-(2**63), 2**64),
    parallel=st.integers(1, 3),
    values=st.lists(st.none() | st.floats(), min_size=14, max_size=14),
)
def test_a_random_search_of_a_tree_gives_new_assignments_of_the_active_parameters(
    space: SearchSpace, seed: int, parallel: int, values: list[float | None]
) -> None:
    reports = iter(values)

    history = run_study(
        space, lambda _: next(reports), len(values), parallel, seed, algorithm=SearchAlgorithm.RANDOM
    )

    by_name = {each.name: each for each in space.parameters}
    for trial in history:
        assert trial.assignment.keys() == active_names(space, trial.assignment)
        assert all(by_name[name].contains(value) for name, value in trial.assignment.items())
    keys = {space.key(trial.assignment) for trial in history}
    assert len(keys) == (min(len(values), Grid(space).size) if space.is_countable else len(values))


@settings(max_examples=50, deadline=None)
@given(space=trees(countable=True), parallel=st.integers(1, 3))
def test_a_grid_search_of_a_tree_tries_its_grid_and_ends(space: SearchSpace, parallel: int) -> None:
    grid, size = Grid(space), min(Grid(space).size, 60)

    history = run_study(space, lambda _: 1.0, size, parallel, algorithm=SearchAlgorithm.GRID)

    assert [trial.assignment for trial in history] == [grid.assignment_at(index) for index in range(size)]
    after = suggest(space, history, [], 0, goal=Goal.MINIMIZE, algorithm=SearchAlgorithm.GRID)
    assert (after is None) is (size == grid.size)


def test_a_random_search_is_uniform_on_each_branch() -> None:
    kind = category("kind", "a", "b", "c")
    layers = below(kind, integer("layers", 1, 2), "c")
    space = SearchSpace((kind, layers, below(layers, double("x"), 2), double("rate")))

    history = run_study(space, lambda _: 0.0, 600, algorithm=SearchAlgorithm.RANDOM)

    found = [trial.assignment for trial in history]
    deep = [each for each in found if each["kind"] == "c"]
    assert all(160 < sum(each["kind"] == value for each in found) < 240 for value in ("a", "b", "c"))
    assert 70 < sum(each["layers"] == 1 for each in deep) < 130
    halves = [each["x"] < 0.5 for each in deep if "x" in each]
    assert 30 < sum(halves) < len(halves) - 30


def test_a_bayesian_search_has_no_conditional_parameters() -> None:
    kind = category("kind")

    with pytest.raises(ValueError, match="conditional"):
        suggest(
            SearchSpace((kind, below(kind, double("x"), "a"))),
            [],
            [],
            0,
            goal=Goal.MINIMIZE,
            algorithm=SearchAlgorithm.BAYESIAN,
        )


def test_a_grid_has_no_real_numbers() -> None:
    with pytest.raises(ValueError, match="DOUBLE"):
        suggest(cube(1), [], [], 0, goal=Goal.MINIMIZE, algorithm=SearchAlgorithm.GRID)


def test_random_search_is_uniform_on_the_scale() -> None:
    space = SearchSpace((double("x", 1e-6, 1.0, ScaleType.LOG), integer("n", 1, 4)))

    history = run_study(space, lambda _: 0.0, 400, algorithm=SearchAlgorithm.RANDOM)

    decades = np.histogram([math.log10(trial.assignment["x"]) for trial in history], bins=6, range=(-6, 0))[0]
    numbers = np.bincount([trial.assignment["n"] for trial in history])[1:]
    assert decades.min() > 40
    assert numbers.min() > 70


def test_different_seeds_search_differently() -> None:
    first, second = (run_study(MIXED, mixed_loss, 3, seed=seed) for seed in (1, 2))

    assert not {MIXED.key(trial.assignment) for trial in first} & {
        MIXED.key(trial.assignment) for trial in second
    }


_PROGRAM = """
import json
from tests.unit.training_service.search.test_suggest import MIXED, rendered_study
print(json.dumps(rendered_study()))
"""


def rendered_study() -> list[Any]:
    """Return the assignments of a study that is longer than its random start."""
    return [MIXED.render(trial.assignment) for trial in run_study(MIXED, mixed_loss, 20, parallel=4, seed=7)]


@pytest.mark.extended
def test_the_sequence_is_the_same_in_any_process_and_with_any_number_of_threads() -> None:
    processes = []
    for hash_seed, threads in (("1", "1"), ("2", "4")):
        variables = {"PYTHONHASHSEED": hash_seed, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", _PROGRAM], env={**os.environ, **variables}, stdout=subprocess.PIPE
            )
        )

    here = rendered_study()
    outputs = [process.communicate()[0] for process in processes]
    assert [json.loads(output) for output in outputs] == [here, here]


def test_a_study_that_crashed_goes_on_as_if_it_had_not() -> None:
    whole = run_study(MIXED, mixed_loss, 25)

    again = suggest(MIXED, whole[:24], [], 0, goal=Goal.MINIMIZE, algorithm=BAYESIAN)

    assert again == whole[24].assignment


def test_trials_of_another_space_are_left_aside() -> None:
    history = run_study(cube(2), lambda x: x["x0"], 12)
    foreign = [
        Observation(assignment={"x0": 7.0, "x1": 0.5}, value=-1e9),
        Observation(assignment={"y": 1}, value=0.0),
    ]

    with_foreign = suggest(
        cube(2), [*foreign, *history], [{"z": 1}], 0, goal=Goal.MINIMIZE, algorithm=BAYESIAN
    )

    assert with_foreign == suggest(cube(2), history, [], 0, goal=Goal.MINIMIZE, algorithm=BAYESIAN)


@pytest.mark.extended
def test_maximising_mirrors_minimising() -> None:
    least = run_study(MIXED, mixed_loss, 20)
    greatest = run_study(MIXED, lambda x: -mixed_loss(x), 20, goal=Goal.MAXIMIZE)

    assert [trial.assignment for trial in least] == [trial.assignment for trial in greatest]


def test_running_trials_push_the_next_one_away() -> None:
    space = cube(2)
    history = run_study(space, lambda x: math.sin(9 * x["x0"]) + math.cos(7 * x["x1"]), 10)
    running: list[Any] = []
    for _ in range(8):
        running.append(suggest(space, history, running, 0, goal=Goal.MINIMIZE, algorithm=BAYESIAN))

    points = np.array([space.key(assignment) for assignment in running])
    apart = np.linalg.norm(points[:, None] - points[None, :], axis=2) + 9 * np.eye(8)
    assert apart.min() > 0.02


def test_a_failing_corner_is_left() -> None:
    def evaluate(x: Mapping[str, Any]) -> float | None:
        return None if x["x0"] < 0.5 else x["x0"] + x["x1"]

    history = run_study(cube(2), evaluate, 40)

    assert sum(trial.value is None for trial in history[20:]) <= 8


def hartmann(x: Mapping[str, Any]) -> float:
    """Hartmann-6, least value -3.32237. Source: https://www.sfu.ca/~ssurjano/hart6.html."""
    a = np.array(
        [
            [10, 3, 17, 3.5, 1.7, 8],
            [0.05, 10, 17, 0.1, 8, 14],
            [3, 3.5, 1.7, 10, 17, 8],
            [17, 8, 0.05, 10, 0.1, 14],
        ]
    )
    p = np.array(
        [
            [1312, 1696, 5569, 124, 8283, 5886],
            [2329, 4135, 8307, 3736, 1004, 9991],
            [2348, 1451, 3522, 2883, 3047, 6650],
            [4047, 8828, 8732, 5743, 1091, 381],
        ]
    )
    point = np.array([x[f"x{place}"] for place in range(6)])
    return float(-np.array([1.0, 1.2, 3.0, 3.2]) @ np.exp(-np.sum(a * (point - p / 1e4) ** 2, axis=1)))


@pytest.mark.extended
def test_four_at_a_time_it_finds_hartmanns_minimum_which_a_random_search_does_not() -> None:
    def regret(algorithm: SearchAlgorithm, seed: int) -> float:
        history = run_study(cube(6), hartmann, 50, parallel=4, seed=seed, algorithm=algorithm)
        return min(trial.value for trial in history if trial.value is not None) + 3.32237

    ours = statistics.median(regret(BAYESIAN, seed) for seed in range(3))

    assert ours < 0.2
    assert statistics.median(regret(SearchAlgorithm.RANDOM, seed) for seed in range(3)) > 0.5


@pytest.mark.extended
def test_a_mixed_space_is_searched_to_its_best_categories() -> None:
    history = run_study(MIXED, mixed_loss, 40, parallel=4)

    best = min(history, key=lambda trial: trial.value if trial.value is not None else math.inf).assignment
    assert best["optimizer"] == "adam"
    assert best["dropout"] == 0.0
    assert abs(math.log10(best["lr"]) + 2) < 0.3


@pytest.mark.extended
@pytest.mark.parametrize(("trials", "most_seconds"), [(200, 0.5), (1000, 1.0)])
def test_a_suggestion_takes_less_than(trials: int, most_seconds: float) -> None:
    random = np.random.default_rng(0)
    history = [
        Observation(assignment=assignment, value=hartmann(assignment))
        for assignment in ({f"x{place}": float(random.random()) for place in range(6)} for _ in range(trials))
    ]
    suggest(cube(6), history[:20], [], 0, goal=Goal.MINIMIZE, algorithm=BAYESIAN)

    seconds = []
    for count in (trials - 2, trials - 1, trials):
        started = time.thread_time()
        suggest(cube(6), history[:count], [], 0, goal=Goal.MINIMIZE, algorithm=BAYESIAN)
        seconds.append(time.thread_time() - started)

    assert statistics.median(seconds) < scaled(most_seconds)
