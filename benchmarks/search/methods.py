"""
The searches that are compared.

Each gets a problem's space, suggests as many trials as run at a time, and gets their results together.
"""

from __future__ import annotations

import hashlib
import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.search import problems
from benchmarks.search.problems import Assignment, Problem
from training_api.job.tuning.search_terms import (
    Goal,
    ParameterKind,
    ScaleType,
    SearchAlgorithm,
    SearchParameter,
)
from training_service import search
from training_service.search.search_space import SearchSpace
from training_service.search.suggest import Observation, suggest

#: Returns what each trial reported, in their order: (problem, parallel trials, seed, trials in all).
Search = Callable[[Problem, int, int, int], list[float]]


def search_here(problem: Problem, parallel: int, seed: int, trials: int) -> list[float]:
    """Run this project's default search."""
    return _search_with(SearchAlgorithm.BAYESIAN, problem, parallel, seed, trials)


def search_at_random(problem: Problem, parallel: int, seed: int, trials: int) -> list[float]:
    """Run this project's random search."""
    return _search_with(SearchAlgorithm.RANDOM, problem, parallel, seed, trials)


def _search_with(
    algorithm: SearchAlgorithm, problem: Problem, parallel: int, seed: int, trials: int
) -> list[float]:
    space = SearchSpace.of(problem.parameters)
    history: list[Observation] = []
    while len(history) < trials:
        running: list[Assignment] = []
        for _ in range(min(parallel, trials - len(history))):
            found = suggest(space, history, running, seed, goal=Goal.MINIMIZE, algorithm=algorithm)
            assert found is not None
            running.append(found)
        history += [Observation(assignment=each, value=problem.evaluate(each)) for each in running]
    return [trial.value for trial in history if trial.value is not None]


def search_with_tpe(problem: Problem, parallel: int, seed: int, trials: int) -> list[float]:
    """Run Optuna's default, tree-structured Parzen estimators, as it comes."""
    return run_optuna("TPESampler", problem, parallel, seed, trials)


def search_with_optuna_gp(problem: Problem, parallel: int, seed: int, trials: int) -> list[float]:
    """Run Optuna's Gaussian process, as it comes."""
    return run_optuna("GPSampler", problem, parallel, seed, trials)


def run_optuna(sampler: str, problem: Problem, parallel: int, seed: int, trials: int) -> list[float]:
    """Return what the trials of one of Optuna's samplers reported."""
    study = optuna_study(sampler, seed)
    values: list[float] = []
    space = {item.name: optuna_distribution(item) for item in problem.parameters}
    while len(values) < trials:
        running = [study.ask(space) for _ in range(min(parallel, trials - len(values)))]
        for trial in running:
            values.append(problem.evaluate(trial.params))
            study.tell(trial, values[-1])
    return values


def optuna_study(sampler: str, seed: int) -> Any:
    """Return an empty study of Optuna that minimises."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna.create_study(sampler=getattr(optuna.samplers, sampler)(seed=seed))


def optuna_distribution(item: SearchParameter) -> Any:
    """
    Return a parameter in Optuna's terms.

    Optuna has no reverse log scale, and the problems have no DISCRETE.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if item.kind is ParameterKind.CATEGORICAL:
        return CategoricalDistribution([str(value) for value in item.values])
    log = item.scale is ScaleType.LOG
    if item.kind is ParameterKind.INTEGER:
        return IntDistribution(int(item.low), int(item.high), log=log)
    return FloatDistribution(item.low, item.high, log=log)


METHODS: Mapping[str, Search] = {
    "ours": search_here,
    "Optuna TPE": search_with_tpe,
    "Optuna GP": search_with_optuna_gp,
    "random": search_at_random,
}
#: Packages that a method needs beyond the default install: the extra ``bench``.
NEEDS: Mapping[str, Sequence[str]] = {"Optuna TPE": ("optuna",), "Optuna GP": ("optuna", "torch")}
#: What this project's searches are made of.
SEARCH_MODULES: Mapping[str, Sequence[str]] = {
    "random": ("suggest", "search_space", "unit_cube"),
    "ours": (
        *("suggest", "search_space", "unit_cube"),
        *("bayesian", "targets", "gaussian_process", "acquisition", "proposal"),
    ),
}


def missing_packages(method: str) -> list[str]:
    """Return what has to be installed before ``method`` can run."""
    return [name for name in NEEDS.get(method, ()) if importlib.util.find_spec(name) is None]


def version(method: str) -> str:
    """
    Return a digest of the code that ``method``'s results depend on.

    Results of another version are not used again.
    """
    digest = hashlib.sha256()
    own = [Path(str(search.__file__)).with_name(f"{name}.py") for name in SEARCH_MODULES.get(method, ())]
    for path in (Path(str(problems.__file__)), Path(__file__), *own):
        digest.update(path.read_bytes())
    for package in (*NEEDS.get(method, ()), "numpy", "scipy", "scikit-learn"):
        digest.update(f"{package} {metadata.version(package)}".encode())
    return digest.hexdigest()[:16]
