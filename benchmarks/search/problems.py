"""The benchmark problems: four functions with known optima, and two classifiers of digits."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from training_api.job.tuning.search_terms import ParameterKind, ScaleType, SearchParameter

Assignment = Mapping[str, Any]
#: Digits that the classifiers learn from; the other 1,197 of the 1,797 judge them.
TRAINING_DIGITS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """
    One function to minimise.

    :param optimum: the least value; ``None`` if it is unknown: then the least value that any run
        found takes its place.
    """

    name: str
    evaluate: Callable[[Assignment], float]
    parameters: tuple[SearchParameter, ...]
    optimum: float | None


def branin(x: Assignment) -> float:
    """Return Branin-Hoo's function. Source: https://www.sfu.ca/~ssurjano/branin.html."""
    a, b = x["x1"], x["x2"]
    quadratic = b - 5.1 / (4 * math.pi**2) * a**2 + 5 / math.pi * a - 6
    return float(quadratic**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a) + 10)


_HARTMANN_A = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
_HARTMANN_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def hartmann(x: Assignment) -> float:
    """
    Return Hartmann's function of six arguments.

    Source: https://www.sfu.ca/~ssurjano/hart6.html.
    """
    point = np.array([x[f"x{index}"] for index in range(1, 7)])
    exponents = np.sum(_HARTMANN_A * (point - _HARTMANN_P) ** 2, axis=1)
    return float(-np.array([1.0, 1.2, 3.0, 3.2]) @ np.exp(-exponents))


def levy(x: Assignment) -> float:
    """Return Levy's function of four arguments. Source: https://www.sfu.ca/~ssurjano/levy.html."""
    w = 1 + (np.array([x[f"x{index}"] for index in range(1, 5)]) - 1) / 4
    middle = np.sum((w[:-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:-1] + 1) ** 2))
    last = (w[-1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[-1]) ** 2)
    return float(np.sin(np.pi * w[0]) ** 2 + middle + last)


def rosenbrock(x: Assignment) -> float:
    """
    Return Rosenbrock's function of five arguments.

    Source: https://www.sfu.ca/~ssurjano/rosen.html.
    """
    point = np.array([x[f"x{index}"] for index in range(1, 6)])
    return float(np.sum(100 * (point[1:] - point[:-1] ** 2) ** 2 + (1 - point[:-1]) ** 2))


@functools.cache
def _digits() -> tuple[Any, Any, Any, Any]:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    data, labels = load_digits(return_X_y=True)
    return tuple(
        train_test_split(data / 16, labels, train_size=TRAINING_DIGITS, random_state=0, stratify=labels)
    )


def support_vectors(x: Assignment) -> float:
    """
    Return the error (0 to 1) of a support vector machine with four parameters.

    Two are real, one is an integer, one a category.
    """
    from sklearn.svm import SVC

    train, test, train_labels, test_labels = _digits()
    model = SVC(C=x["C"], gamma=x["gamma"], kernel=x["kernel"], degree=x["degree"], max_iter=2000)
    return 1 - float(model.fit(train, train_labels).score(test, test_labels))


def random_features(x: Assignment) -> float:
    """
    Return the error (0 to 1) of a linear classifier with eight parameters.

    It works on random Fourier features of principal components.
    """
    from sklearn.decomposition import PCA
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDClassifier
    from sklearn.pipeline import make_pipeline

    train, test, train_labels, test_labels = _digits()
    model = make_pipeline(
        PCA(x["components"], whiten=x["whiten"] == "yes", svd_solver="full"),
        RBFSampler(gamma=x["gamma"], n_components=x["features"], random_state=0),
        SGDClassifier(
            loss=x["loss"],
            alpha=x["alpha"],
            learning_rate="invscaling",
            eta0=x["eta0"],
            power_t=x["power_t"],
            max_iter=3,
            tol=None,
            random_state=0,
        ),
    )
    return 1 - float(model.fit(train, train_labels).score(test, test_labels))


def _double(name: str, low: float, high: float, scale: ScaleType = ScaleType.LINEAR) -> SearchParameter:
    return SearchParameter(name=name, kind=ParameterKind.DOUBLE, low=low, high=high, scale=scale)


def _integer(name: str, low: int, high: int, scale: ScaleType = ScaleType.LINEAR) -> SearchParameter:
    return SearchParameter(name=name, kind=ParameterKind.INTEGER, low=low, high=high, scale=scale)


def _category(name: str, *values: str) -> SearchParameter:
    return SearchParameter(name=name, kind=ParameterKind.CATEGORICAL, values=values)


def _cube(dimensions: int, low: float, high: float) -> tuple[SearchParameter, ...]:
    return tuple(_double(f"x{index}", low, high) for index in range(1, dimensions + 1))


PROBLEMS = (
    Problem(
        name="Branin-2",
        evaluate=branin,
        parameters=(_double("x1", -5, 10), _double("x2", 0, 15)),
        optimum=0.39788735772973816,
    ),
    Problem(name="Hartmann-6", evaluate=hartmann, parameters=_cube(6, 0, 1), optimum=-3.322368011415515),
    Problem(name="Levy-4", evaluate=levy, parameters=_cube(4, -10, 10), optimum=0.0),
    Problem(name="Rosenbrock-5", evaluate=rosenbrock, parameters=_cube(5, -5, 10), optimum=0.0),
    Problem(
        name="digits, 4 parameters",
        evaluate=support_vectors,
        parameters=(
            _double("C", 1e-3, 1e3, ScaleType.LOG),
            _double("gamma", 1e-5, 10, ScaleType.LOG),
            _integer("degree", 1, 8),
            _category("kernel", "linear", "poly", "rbf", "sigmoid"),
        ),
        optimum=None,
    ),
    Problem(
        name="digits, 8 parameters",
        evaluate=random_features,
        parameters=(
            _integer("components", 2, 60),
            _category("whiten", "yes", "no"),
            _double("gamma", 1e-3, 10, ScaleType.LOG),
            _integer("features", 10, 300, ScaleType.LOG),
            _category("loss", "hinge", "log_loss", "modified_huber"),
            _double("alpha", 1e-7, 1e-1, ScaleType.LOG),
            _double("eta0", 1e-3, 10, ScaleType.LOG),
            _double("power_t", 0, 1),
        ),
        optimum=None,
    ),
)
