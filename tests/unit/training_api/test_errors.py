"""The tree of errors: what each carries, and how it reads."""

from __future__ import annotations

import inspect
import re

import pytest

from training_api import errors
from training_api.errors import (
    EditConflict,
    FieldViolation,
    InvalidJobSpec,
    InvalidRequest,
    JobFailed,
    PlanIsStale,
    ServiceError,
    TrainingError,
)

VIOLATIONS = [
    FieldViolation(field="jobId", description="is bad"),
    FieldViolation(field="labels", description="too many"),
]


def drawn_tree() -> dict[str, str]:
    """Return the parent of each error, as the picture at the top of the module has it."""
    parents: dict[str, str] = {}
    above: list[str] = []
    for line in inspect.getdoc(errors).split("::", 1)[1].splitlines():  # type: ignore[union-attr]
        if found := re.fullmatch(r" +((?:\|   )*)(\+ )?([A-Z][A-Za-z]+)(?:\(.*?\))?(?:  .*)?", line):
            depth = len(found[1]) // 4 + bool(found[2])
            above[depth:] = [found[3]]
            parents[found[3]] = above[depth - 1] if depth else ""
    return parents


def test_the_picture_of_the_tree_is_the_tree() -> None:
    defined = [
        each
        for _, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, TrainingError) and each is not TrainingError
    ]

    assert drawn_tree() == {"TrainingError": ""} | {
        each.__name__: each.__bases__[0].__name__ for each in defined
    }


@pytest.mark.parametrize("kind", [InvalidJobSpec, InvalidRequest])
def test_the_error_reads_as_one_line(kind: type[InvalidJobSpec] | type[InvalidRequest]) -> None:
    error = kind(VIOLATIONS)

    assert str(error) == "jobId: is bad; labels: too many"
    assert error.violations == tuple(VIOLATIONS)


@pytest.mark.parametrize("kind", [InvalidJobSpec, InvalidRequest])
def test_the_error_of_one_rule_needs_no_list(kind: type[InvalidJobSpec] | type[InvalidRequest]) -> None:
    error = kind.of("jobId", "is bad")

    assert type(error) is kind
    assert error.violations == (FieldViolation(field="jobId", description="is bad"),)


@pytest.mark.parametrize("name", [name for name in drawn_tree() if name.startswith("Invalid")])
def test_what_is_invalid_is_a_value_error_too(name: str) -> None:
    assert issubclass(getattr(errors, name), ValueError)


def test_a_lost_edit_is_aborted_as_the_api_has_it() -> None:
    error = EditConflict("somebody else wrote first")

    assert (error.code, error.status) == (409, "ABORTED")
    assert isinstance(error, ServiceError)


@pytest.mark.parametrize(
    ("reason", "text"),
    [("replica 0 exited with 1", "replica 0 exited with 1"), ("", "the service gave no reason")],
)
def test_a_failed_job_says_why_as_far_as_it_is_known(reason: str, text: str) -> None:
    assert str(JobFailed("digits", "FAILED", reason)) == f"job 'digits' ended as FAILED: {text}"


def test_a_stale_plan_lists_its_reasons_and_the_way_out() -> None:
    assert str(PlanIsStale(["the image moved", "the job exists"])).splitlines() == [
        "the plan is stale, and nothing was changed:",
        "  the image moved",
        "  the job exists",
        "plan again, look at the new plan, and apply that one",
    ]
