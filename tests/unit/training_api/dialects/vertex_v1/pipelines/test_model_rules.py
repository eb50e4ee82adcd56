"""The model of a pipeline: its rules, and what it is once it is there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.training_pipelines import MODEL, WITH_BASE
from training_api.dialects.vertex_v1.pipelines.model_rules import check_model_of_pipeline, trained
from training_api.job.violations import Violations


def told(model: dict[str, Any], job_spec: dict[str, Any]) -> dict[str, str]:
    rules = Violations()
    check_model_of_pipeline(rules, "modelToUpload", model, job_spec)
    return {each.field: each.description for each in rules.found}


def test_a_model_lies_where_its_trainer_was_told_to_write_it() -> None:
    assert trained(MODEL, WITH_BASE) == {
        **MODEL,
        "artifactUri": "gs://bucket/base/model/",
        "versionAliases": ["default"],
    }


def test_aliases_are_kept_and_the_default_one_is_there_once() -> None:
    model = {**MODEL, "versionAliases": ["golden", "default"]}

    assert trained(model, WITH_BASE)["versionAliases"] == ["default", "golden"]
    assert told(model, WITH_BASE) == {}


def test_a_model_without_a_directory_is_refused() -> None:
    assert told(MODEL, {}).keys() == {"modelToUpload"}
    assert "add the directory, or leave the model out" in told(MODEL, {})["modelToUpload"]


@pytest.mark.parametrize(
    ("change", "field", "rule"),
    [
        ({"artifactUri": "gs://b/m"}, "artifactUri", "is given by the service"),
        ({"containerSpec": {}}, "containerSpec.imageUri", "is required"),
        ({"displayName": ""}, "displayName", "is required"),
        ({"labels": {"A": ""}}, "labels", "lowercase"),
        ({"versionAliases": ["ok1", "1"]}, "versionAliases[1]", "got '1'"),
    ],
)
def test_a_broken_rule_is_told_by_its_field(change: dict[str, Any], field: str, rule: str) -> None:
    found = told({**MODEL, **change}, WITH_BASE)

    assert found.keys() == {f"modelToUpload.{field}"}
    assert rule in found[f"modelToUpload.{field}"]
