"""
``docs/fidelity.md`` and ``docs/fidelity-vertex.md`` are what the code does.

Their hand-written notes are neither stale nor incomplete.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from docs.tools.fidelity.__main__ import DOCS, REFERENCES
from docs.tools.fidelity.fields import Check, FieldRow, field_rows
from docs.tools.fidelity.ml_v1.reference import ML_V1
from docs.tools.fidelity.note import Certainty, Note
from docs.tools.fidelity.page import FidelityRows, fidelity_rows, render, served_operations
from docs.tools.fidelity.reference import Reference
from docs.tools.fidelity.vertex_v1.reference import SERVED, VERTEX_V1

#: Schemas of fields that are refused by name, or hold any value, so that what is in them stays opaque.
OPAQUE = {
    *("PredictionInput", "PredictionOutput", "NfsMount", "LustreMount", "InputDataConfig", "Model"),
    *("StudySpecConvexAutomatedStoppingSpec", "StudySpecMetricSpecSafetyMetricConfig", "StudyTimeConstraint"),
}
#: Let through and not shown: the service makes them.
NOT_ECHOED = {"ml.v1.json": ["Job.etag"], "aiplatform.v1.json": []}


@cache
def made(reference: Reference) -> FidelityRows:
    return fidelity_rows(reference, reference.read_discovery(), served_operations())


@pytest.fixture(params=REFERENCES, ids=lambda reference: reference.page)
def reference(request: pytest.FixtureRequest) -> Reference:
    found: Reference = request.param
    return found


@pytest.fixture
def rows(reference: Reference) -> FidelityRows:
    return made(reference)


def field(rows: FidelityRows, key: str) -> FieldRow:
    (found,) = [row for row in rows.fields if row.key == key]
    return found


# --- the page


def test_the_page_is_what_the_code_says(reference: Reference, rows: FidelityRows) -> None:
    page = DOCS / reference.page

    assert page.read_text(encoding="utf-8") == render(reference, rows), f"{page} is stale; run `make docs`"


def test_every_field_of_the_discovery_document_has_its_row(reference: Reference, rows: FidelityRows) -> None:
    discovery = reference.read_discovery()
    expected = [
        f"{schema}.{name}" for schema in reference.places for name in reference.schema_of(discovery, schema)
    ]

    assert [row.key for row in rows.fields] == expected
    assert all(row.accepted for row in rows.fields)


def test_every_schema_that_a_resource_can_contain_has_its_table(reference: Reference) -> None:
    discovery = reference.read_discovery()
    referenced = {
        reference.short_name(name)
        for schema in reference.places
        for prop in reference.schema_of(discovery, schema).values()
        for name in (prop.get("$ref", ""), prop.get("items", {}).get("$ref", ""))
        if name
    }

    roots = {schema for schema, place in reference.places.items() if not place}
    assert referenced - OPAQUE - roots == set(reference.places) - roots


def test_every_method_of_training_has_its_row() -> None:
    projects = ML_V1.read_discovery()["resources"]["projects"]
    expected = {f"projects.{name}" for name in projects["methods"]} | {
        f"projects.{resource}.{name}"
        for resource in ("jobs", "locations", "operations")
        for name in projects["resources"][resource]["methods"]
    }

    assert {row.name for row in made(ML_V1).methods} == expected


def test_every_method_of_vertex_ais_jobs_has_its_row() -> None:
    locations = VERTEX_V1.read_discovery()["resources"]["projects"]["resources"]["locations"]["resources"]
    expected = {f"projects.locations.{name}" for name in ("get", "list")} | {
        f"projects.locations.{resource}.{name}"
        for resource in SERVED
        for name in locations[resource]["methods"]
    }

    assert {row.name for row in made(VERTEX_V1).methods} == expected


# --- the notes


def test_the_notes_name_nothing_that_the_api_does_not_have(reference: Reference, rows: FidelityRows) -> None:
    fields = {row.key for row in rows.fields}

    assert set(reference.notes) - fields - set(reference.places) == set()
    assert {*reference.samples, *reference.bad_samples} - fields == set()
    assert set(reference.method_notes) - {row.name for row in rows.methods} == set()


def test_a_field_without_an_effect_has_a_reason(rows: FidelityRows) -> None:
    unexplained = [row.key for row in rows.fields if row.needs_reason and not row.note.deviation]

    assert unexplained == [], (
        "say in the API's notes.py below docs/tools/fidelity why nothing is done with them"
    )


def test_a_method_that_is_not_served_has_a_reason(rows: FidelityRows) -> None:
    unexplained = [
        row.name for row in rows.methods if (not row.served or row.missing) and not row.note.deviation
    ]

    assert unexplained == [], "say in the API's notes.py below docs/tools/fidelity why they are not there"


def test_what_is_refused_is_not_said_to_be_enforced(rows: FidelityRows) -> None:
    assert [row.key for row in rows.fields if row.refused and row.note.enforced] == []


def test_what_is_refused_in_part_says_why(rows: FidelityRows) -> None:
    assert [row.key for row in rows.fields if row.refused_values and not row.note.deviation] == []


def test_a_value_that_is_let_through_is_echoed(reference: Reference, rows: FidelityRows) -> None:
    lost = [row.key for row in rows.fields if not (row.output or row.refused or row.echoed)]

    assert lost == NOT_ECHOED[reference.document]


def test_every_rule_with_a_bad_sample_is_found(reference: Reference, rows: FidelityRows) -> None:
    assert [key for key in reference.bad_samples if Check.RULE not in field(rows, key).checks] == []


@pytest.mark.parametrize("note", [{"deviation": "x"}, {"certainty": Certainty.DISCOVERY}])
def test_a_deviation_has_its_certainty(note: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="go together"):
        Note(**note)


# --- what is known to be so


@pytest.mark.parametrize("key", ["Job.predictionInput", "ReplicaConfig.tpuTfVersion"])
def test_what_the_service_cannot_do_is_refused(key: str) -> None:
    row = field(made(ML_V1), key)

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
def test_some_values_may_be_refused_and_others_not(key: str, values: tuple[str, ...]) -> None:
    row = field(made(ML_V1), key)

    assert not row.refused
    assert row.refused_values == values


@pytest.mark.parametrize(
    "key",
    ["Job.jobId", "Job.labels", "TrainingInput.jobDir", "Scheduling.priority", "ReplicaConfig.imageUri"],
)
def test_what_the_service_does_is_validated_enforced_and_echoed(key: str) -> None:
    row = field(made(ML_V1), key)

    assert row.checks == (Check.TYPE, Check.RULE)
    assert row.note.enforced
    assert row.echoed


@pytest.mark.parametrize(("key", "is_set"), [("Job.endTime", True), ("Job.trainingOutput", False)])
def test_output_is_what_the_service_answers(key: str, is_set: bool) -> None:
    row = field(made(ML_V1), key)

    assert row.output
    assert row.echoed is is_set


def test_a_field_that_the_service_does_not_know_is_not_accepted() -> None:
    discovery = ML_V1.read_discovery()
    properties = discovery["schemas"]["GoogleCloudMlV1__TrainingInput"]["properties"]
    properties["spotInstances"] = {"type": "boolean"}

    (row,) = [row for row in field_rows(ML_V1, discovery) if row.name == "spotInstances"]

    assert not row.accepted
    assert row.refused == "Extra inputs are not permitted"


def test_methods_are_compared_by_verb_and_path() -> None:
    served = {("GET", "/v1/projects/{}/jobs"): frozenset({"filter"}), ("GET", "/v1/projects/{}/jobs/{}"): ()}

    methods = {row.name: row for row in fidelity_rows(ML_V1, ML_V1.read_discovery(), served).methods}

    assert methods["projects.jobs.list"].served
    assert methods["projects.jobs.list"].missing == ("pageSize", "pageToken")
    assert methods["projects.jobs.get"].served
    assert not methods["projects.jobs.create"].served


@pytest.mark.parametrize(
    "key",
    ["CustomJob.displayName", "ContainerSpec.imageUri", "MachineSpec.machineType", "Scheduling.timeout"],
)
def test_what_is_done_with_a_custom_job_is_validated_enforced_and_echoed(key: str) -> None:
    row = field(made(VERTEX_V1), key)

    assert row.checks == (Check.TYPE, Check.RULE)
    assert row.note.enforced
    assert row.echoed


def test_paths_of_vertex_ai_are_those_below_the_prefix() -> None:
    served = {("GET", "/v1/projects/{}/locations/{}/customJobs/{}"): frozenset[str]()}

    methods = {row.name: row for row in fidelity_rows(VERTEX_V1, VERTEX_V1.read_discovery(), served).methods}

    assert not methods["projects.locations.customJobs.get"].served
