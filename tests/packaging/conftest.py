"""One wheel and one fresh virtual environment a distribution, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.packaging.fresh_venv import FreshVenv, build
from tests.support.distributions import API, DISTRIBUTIONS, Distribution


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The wheel of each distribution, by its name; built from the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    return {distribution.name: build(distribution, folder) for distribution in DISTRIBUTIONS}


@pytest.fixture(scope="session")
def venv_of(
    wheels: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Distribution], FreshVenv]:
    """Return a function that makes the environment of one distribution, once."""

    @cache
    def make(distribution: Distribution) -> FreshVenv:
        names = sorted({API.name, distribution.name})
        return FreshVenv.with_packages(
            tmp_path_factory.mktemp("venv") / distribution.name, [wheels[name] for name in names]
        )

    return make
