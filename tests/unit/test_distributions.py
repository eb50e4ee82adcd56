"""The distributions ask for what they import, and for nothing else (docs/adr/0023)."""

from __future__ import annotations

import re
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.distributions import (
    AIRFLOW,
    CHECKOUT,
    DISTRIBUTIONS,
    ROOT,
    SERVICE,
    Distribution,
    distribution_of,
    imports_of,
)
from training_api.version import __version__
from training_service.studies.installed import TUNING

#: Asked for, though nothing imports it -> why.
USED_BY_NAME = {
    "build": "python -m build makes source distributions of trainers",
    "httptools": "uvicorn's fast parser, which the object store names",
    "psycopg": "SQLAlchemy's driver for PostgreSQL, which a URL names",
    "setuptools": "builds trainers without a pyproject.toml",
}
OWN = {distribution.name for distribution in DISTRIBUTIONS}

each_distribution = pytest.mark.parametrize(
    "distribution", [*DISTRIBUTIONS, CHECKOUT], ids=lambda distribution: distribution.name
)


def names(requirements: list[Requirement]) -> set[str]:
    return {canonicalize_name(requirement.name) for requirement in requirements}


def imported_by(distribution: Distribution) -> set[str]:
    """Return the distributions that its modules import, at once or later."""
    return {
        other
        for _, path in distribution.modules()
        for module, _ in imports_of(path)
        if (other := other_distribution(module, distribution))
    }


def other_distribution(module: str, distribution: Distribution) -> str | None:
    """Return the distribution of ``module``; ``None``: Python's own, or the distribution itself."""
    package = module.partition(".")[0]
    own = {folder.rpartition("/")[2] for folder in distribution.packages} | distribution.programs
    return None if package in own | sys.stdlib_module_names else distribution_of(module)


@pytest.mark.extended
@each_distribution
def test_every_import_is_asked_for(distribution: Distribution) -> None:
    asked = [*distribution.requirements, *distribution.optional_requirements]

    assert imported_by(distribution) <= names(asked)


@each_distribution
def test_only_modules_that_need_an_extra_import_it_at_once(distribution: Distribution) -> None:
    always = names(distribution.requirements)

    wrong = {
        (name, module)
        for name, path in distribution.modules()
        for module, at_once in imports_of(path)
        if at_once
        and (other := other_distribution(module, distribution))
        and other not in always
        and other not in names(distribution.extras.get(distribution.extra_of(name) or "", []))
    }

    assert not wrong


@each_distribution
def test_nothing_is_asked_for_in_vain(distribution: Distribution) -> None:
    asked = names(distribution.requirements)
    if distribution is not CHECKOUT:  # its extras are tools
        asked |= names(distribution.optional_requirements)

    assert asked - imported_by(distribution) - OWN <= set(USED_BY_NAME)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda distribution: distribution.name)
def test_the_distributions_of_one_version_belong_together(distribution: Distribution) -> None:
    asked = [*distribution.requirements, *distribution.optional_requirements]
    own = [each for each in asked if each.name in OWN]

    assert "version" in distribution.project["dynamic"]
    assert {str(requirement.specifier) for requirement in own} <= {f"=={__version__}"}


def test_airflow_and_its_providers_are_asked_for_by_range() -> None:
    of_airflow = [each for each in AIRFLOW.requirements if each.name.startswith("apache-airflow")]

    assert [str(each) for each in of_airflow if each.name == "apache-airflow"] == ["apache-airflow<3.4,>=3.3"]
    assert all(len(each.specifier) == 2 and "==" not in str(each) for each in of_airflow)


def test_the_service_knows_what_tuning_needs() -> None:
    assert set(TUNING) == names(SERVICE.extras["tuning"])


def test_all_that_is_locked_has_hashes_and_comes_from_no_index_of_ours() -> None:
    text = (ROOT / "requirements.txt").read_text("utf-8")
    pins = re.findall(r"^(\S+)==\S+ \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", text, re.MULTILINE)

    assert len(pins) == len(re.findall("==", text)) > 200
    assert "://" not in text
    assert not {canonicalize_name(name) for name, _ in pins} & OWN


def test_what_is_locked_is_within_the_ranges() -> None:
    text = (ROOT / "requirements.txt").read_text("utf-8")
    locked = {
        canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.M)
    }
    asked = [
        requirement
        for distribution in (*DISTRIBUTIONS, CHECKOUT)
        for requirement in (*distribution.requirements, *distribution.optional_requirements)
        if requirement.name not in OWN and requirement not in CHECKOUT.extras["bench"]
    ]

    outside = {str(each) for each in asked if not is_locked_within(each, locked)}

    assert not outside


def is_locked_within(requirement: Requirement, locked: dict[str, str]) -> bool:
    version = locked.get(canonicalize_name(requirement.name))
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def test_the_changelog_has_a_section_of_this_version() -> None:
    sections = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)

    assert sections[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(__version__)} - \d{{4}}-\d\d-\d\d", sections[1])


def test_every_package_says_that_it_is_typed() -> None:
    folders = [folder for distribution in DISTRIBUTIONS for folder in distribution.packages]

    assert [folder for folder in folders if not (ROOT / folder / "py.typed").exists()] == []


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda distribution: distribution.name)
def test_every_distribution_has_the_license(distribution: Distribution) -> None:
    """A copy: a source distribution cannot have a file of the folder above, nor a link to one."""
    assert (ROOT / distribution.folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
