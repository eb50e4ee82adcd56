"""
``docs/fidelity.md`` is what the code does.

Its hand-written notes are neither stale nor incomplete.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from docs.tools.fidelity.fields import PLACES, Check, FieldRow, field_rows, schema_of
from docs.tools.fidelity.notes import BAD_SAMPLES, METHOD_NOTES, NOTES, SAMPLES, Certainty, Note
from docs.tools.fidelity.page import (
    FidelityRows,
    fidelity_rows,
    read_discovery,
    render,
    served_operations,
)

PAGE = Path(__file__).parents[2] / "docs" / "fidelity.md"
DISCOVERY = read_discovery()
#: Prediction jobs are refused by name, so what is in them stays opaque.
OPAQUE = {"PredictionInput", "PredictionOutput"}


@pytest.fixture(scope="module")
def rows() -> FidelityRows:
    return fidelity_rows(DISCOVERY, served_operations())


def field(rows: FidelityRows, key: str) -> FieldRow:
    (found,) = [row for row in rows.fields if row.key == key]
    return found


# --- the page


def test_the_page_is_what_the_code_says(rows: FidelityRows) -> None:
    assert PAGE.read_text(encoding="utf-8") == render(rows), "docs/fidelity.md is stale; run `make docs`"


def test_every_field_of_the_discovery_document_has_its_row(rows: FidelityRows) -> None:
    expected = [f"{schema}.{name}" for schema in PLACES for name in schema_of(DISCOVERY, schema)]

    assert [row.key for row in rows.fields] == expected
    assert all(row.accepted for row in rows.fields)


def test_every_schema_that_a_job_can_contain_has_its_table() -> None:
    referenced = {
        name.rpartition("_")[2]
        for schema in PLACES
        for prop in schema_of(DISCOVERY, schema).values()
        for name in (prop.get("$ref", ""), prop.get("items", {}).get("$ref", ""))
        if name
    }

    assert referenced - OPAQUE == set(PLACES) - {"Job"}


def test_every_method_of_training_has_its_row(rows: FidelityRows) -> None:
    projects = DISCOVERY["resources"]["projects"]
    expected = {f"projects.{name}" for name in projects["methods"]} | {
        f"projects.{resource}.{name}"
        for resource in ("jobs", "locations", "operations")
        for name in projects["resources"][resource]["methods"]
    }

    assert {row.name for row in rows.methods} == expected


# --- the notes


def test_the_notes_name_nothing_that_the_api_does_not_have(rows: FidelityRows) -> None:
    fields = {row.key for row in rows.fields}

    assert set(NOTES) - fields - set(PLACES) == set()
    assert {*SAMPLES, *BAD_SAMPLES} - fields == set()
    assert set(METHOD_NOTES) - {row.name for row in rows.methods} == set()


def test_a_field_without_an_effect_has_a_reason(rows: FidelityRows) -> None:
    unexplained = [row.key for row in rows.fields if row.needs_reason and not row.note.deviation]

    assert unexplained == [], "say in docs/tools/fidelity/notes.py why nothing is done with them"


def test_a_method_that_is_not_served_has_a_reason(rows: FidelityRows) -> None:
    unexplained = [
        row.name for row in rows.methods if (not row.served or row.missing) and not row.note.deviation
    ]

    assert unexplained == [], "say in docs/tools/fidelity/notes.py why they are not there"


def test_what_is_refused_is_not_said_to_be_enforced(rows: FidelityRows) -> None:
    assert [row.key for row in rows.fields if row.refused and row.note.enforced] == []


def test_what_is_refused_in_part_says_why(rows: FidelityRows) -> None:
    assert [row.key for row in rows.fields if row.refused_values and not row.note.deviation] == []


def test_a_value_that_is_let_through_is_echoed(rows: FidelityRows) -> None:
    lost = [row.key for row in rows.fields if not (row.output or row.refused or row.echoed)]

    assert lost == ["Job.etag"]  # the service makes it


def test_every_rule_with_a_bad_sample_is_found(rows: FidelityRows) -> None:
    assert [key for key in BAD_SAMPLES if Check.RULE not in field(rows, key).checks] == []


@pytest.mark.parametrize("note", [{"deviation": "x"}, {"certainty": Certainty.DISCOVERY}])
def test_a_deviation_has_its_certainty(note: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="go together"):
        Note(**note)


# --- what is known to be so


@pytest.mark.parametrize("key", ["Job.predictionInput", "ReplicaConfig.tpuTfVersion"])
def test_what_the_service_cannot_do_is_refused(rows: FidelityRows, key: str) -> None:
    row = field(rows, key)

    assert row.refused
    assert not row.echoed


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("TrainingInput.scaleTier", ("BASIC_TPU",)),
        ("TrainingInput.enableWebAccess", ("true",)),
        ("TrainingInput.jobDir", ()),
    ],
)
def test_some_values_may_be_refused_and_others_not(
    rows: FidelityRows, key: str, values: tuple[str, ...]
) -> None:
    row = field(rows, key)

    assert not row.refused
    assert row.refused_values == values


@pytest.mark.parametrize(
    "key",
    ["Job.jobId", "Job.labels", "TrainingInput.jobDir", "Scheduling.priority", "ReplicaConfig.imageUri"],
)
def test_what_the_service_does_is_validated_enforced_and_echoed(rows: FidelityRows, key: str) -> None:
    row = field(rows, key)

    assert row.checks == (Check.TYPE, Check.RULE)
    assert row.note.enforced
    assert row.echoed


@pytest.mark.parametrize(("key", "is_set"), [("Job.endTime", True), ("Job.trainingOutput", False)])
def test_output_is_what_the_service_answers(rows: FidelityRows, key: str, is_set: bool) -> None:
    row = field(rows, key)

    assert row.output
    assert row.echoed is is_set


def test_a_field_that_the_service_does_not_know_is_not_accepted() -> None:
    discovery = json.loads(json.dumps(DISCOVERY))
    properties = discovery["schemas"]["GoogleCloudMlV1__TrainingInput"]["properties"]
    properties["spotInstances"] = {"type": "boolean"}

    (row,) = [row for row in field_rows(discovery) if row.name == "spotInstances"]

    assert not row.accepted
    assert row.refused == "Extra inputs are not permitted"


def test_methods_are_compared_by_verb_and_path() -> None:
    served = {("GET", "/v1/projects/{}/jobs"): frozenset({"filter"}), ("GET", "/v1/projects/{}/jobs/{}"): ()}

    methods = {row.name: row for row in fidelity_rows(DISCOVERY, served).methods}

    assert methods["projects.jobs.list"].served
    assert methods["projects.jobs.list"].missing == ("pageSize", "pageToken")
    assert methods["projects.jobs.get"].served
    assert not methods["projects.jobs.create"].served
