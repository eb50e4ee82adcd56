"""The wire models against the real API's discovery document, and requests of gcloud."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.support.discovery import schemas, wire_names
from training_api.dialects.ml_v1 import resources as wire
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.wire import WireModel, format_timestamp

SCHEMAS = schemas("ml.v1")

MODELS: dict[str, type[WireModel]] = {
    "GoogleCloudMlV1__AcceleratorConfig": wire.AcceleratorConfig,
    "GoogleCloudMlV1__BuiltInAlgorithmOutput": wire.BuiltInAlgorithmOutput,
    "GoogleCloudMlV1__Config": wire.ProjectConfig,
    "GoogleCloudMlV1__DiskConfig": wire.DiskConfig,
    "GoogleCloudMlV1__EncryptionConfig": wire.EncryptionConfig,
    "GoogleCloudMlV1__GetConfigResponse": wire.GetConfigResponse,
    "GoogleCloudMlV1__HyperparameterOutput": wire.HyperparameterOutput,
    "GoogleCloudMlV1_HyperparameterOutput_HyperparameterMetric": wire.HyperparameterMetric,
    "GoogleCloudMlV1__HyperparameterSpec": wire.HyperparameterSpec,
    "GoogleCloudMlV1__Job": wire.Job,
    "GoogleCloudMlV1__ListJobsResponse": wire.ListJobsResponse,
    "GoogleCloudMlV1__ParameterSpec": wire.ParameterSpec,
    "GoogleCloudMlV1__ReplicaConfig": wire.ReplicaConfig,
    "GoogleCloudMlV1__Scheduling": wire.Scheduling,
    "GoogleCloudMlV1__TrainingInput": wire.TrainingInput,
    "GoogleCloudMlV1__TrainingOutput": wire.TrainingOutput,
}
#: Prediction jobs are refused by name, so what is in them stays opaque.
OPAQUE = {"GoogleCloudMlV1__PredictionInput", "GoogleCloudMlV1__PredictionOutput"}
#: The one exception: job states are output only. This service always knows the state that it answers with.
NEVER_ANSWERED = {"STATE_UNSPECIFIED"}


def _properties(schema: str) -> dict[str, Any]:
    properties: dict[str, Any] = SCHEMAS[schema]["properties"]
    return properties


def _all_properties() -> Iterator[tuple[str, str]]:
    for schema in MODELS:
        for name in _properties(schema):
            yield schema, name


def _with(key: str, value: str) -> list[tuple[str, str]]:
    return [pair for pair in _all_properties() if _properties(pair[0])[pair[1]].get(key) == value]


ENUMS = [pair for pair in _all_properties() if "enum" in _properties(pair[0])[pair[1]]]


def _annotation(schema: str, name: str) -> Any:
    """Return the Python type of our field of that name, without ``None`` and serializers."""
    fields = MODELS[schema].model_fields.values()
    return _bare(next(field.annotation for field in fields if field.alias == name))


def _bare(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (part for part in get_args(annotation) if part is not type(None))
        return _bare(annotation)
    if get_origin(annotation) is list:
        return list[_bare(get_args(annotation)[0])]  # type: ignore[misc]
    return _bare(get_args(annotation)[0]) if get_origin(annotation) is Annotated else annotation


def _expected_type(prop: dict[str, Any]) -> Any:
    if "$ref" in prop:
        return dict[str, Any] if prop["$ref"] in OPAQUE else MODELS[prop["$ref"]]
    if "additionalProperties" in prop:
        assert prop["additionalProperties"] == {"type": "string"}
        return dict[str, str]
    if prop["type"] == "array":
        return list[_expected_type(prop["items"])]  # type: ignore[misc]
    formats = {"int64": int, "int32": int, "double": float, "google-datetime": datetime}
    if prop.get("format") in formats:
        return formats[prop["format"]]
    return {"boolean": bool, "string": str}[prop["type"]]


@pytest.mark.parametrize("schema", MODELS)
def test_a_model_has_exactly_the_fields_of_its_schema(schema: str) -> None:
    assert wire_names(MODELS[schema]) == set(_properties(schema))


def test_every_schema_that_a_job_can_contain_has_a_model() -> None:
    referenced = {
        ref
        for schema, name in _all_properties()
        for prop in (_properties(schema)[name], _properties(schema)[name].get("items", {}))
        if (ref := prop.get("$ref"))
    }

    assert referenced - OPAQUE <= set(MODELS)


@pytest.mark.parametrize(("schema", "name"), [pair for pair in _all_properties() if pair not in ENUMS])
def test_a_field_has_the_type_of_its_property(schema: str, name: str) -> None:
    assert _annotation(schema, name) == _expected_type(_properties(schema)[name])


@pytest.mark.parametrize(("schema", "name"), ENUMS)
def test_an_enum_has_exactly_the_values_of_its_property(schema: str, name: str) -> None:
    ours = {member.value for member in _annotation(schema, name)}

    theirs = set(_properties(schema)[name]["enum"])
    assert ours == theirs - NEVER_ANSWERED


@pytest.mark.parametrize(("schema", "name"), _with("format", "int64"))
@pytest.mark.parametrize("sent", [7, "7"])
def test_an_int64_is_accepted_as_number_or_string_and_answered_as_string(
    schema: str, name: str, sent: int | str
) -> None:
    assert MODELS[schema].model_validate({name: sent}).to_wire() == {name: "7"}


@pytest.mark.parametrize("sent", [2**63, -(2**63) - 1, str(2**63), 1.5, "two", True])
def test_what_is_no_int64_is_refused(sent: object) -> None:
    with pytest.raises(ValidationError):
        TrainingInput.model_validate({"workerCount": sent})


@pytest.mark.parametrize(("schema", "name"), _with("format", "google-datetime"))
def test_a_timestamp_is_answered_in_utc_with_microseconds_and_z(schema: str, name: str) -> None:
    resource = MODELS[schema].model_validate({name: "2026-01-31T12:00:00.5+02:00"})

    assert resource.to_wire() == {name: "2026-01-31T10:00:00.500000Z"}


def test_the_nanoseconds_of_a_timestamp_are_cut() -> None:
    job = Job.model_validate({"createTime": "2026-01-31T12:00:00.123456789Z"})

    assert job.create_time == datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize("naive", ["2026-01-31T12:00:00", "2026-01-31", datetime(2026, 1, 31, 12)])
def test_a_timestamp_without_a_time_zone_is_refused(naive: object) -> None:
    with pytest.raises(ValidationError, match="must carry a time zone"):
        Job.model_validate({"createTime": naive})


@pytest.mark.parametrize("edge", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_a_timestamp_that_has_no_utc_is_refused_like_any_other_bad_value(edge: str) -> None:
    with pytest.raises(ValidationError):
        Job.model_validate({"createTime": edge})


def test_format_timestamp_converts_to_utc() -> None:
    moment = datetime(2026, 11, 20, 1, 30, tzinfo=timezone(timedelta(hours=-8)))

    assert format_timestamp(moment) == "2026-11-20T09:30:00.000000Z"


# Requests that gcloud 528 sent, byte for byte.
CAPTURED = {
    "one container": """{"jobId":"sub_a","labels":{"env":"dev","team":"x"},"trainingInput":{"args":["--epochs=3","--lr","0.1"],"enableWebAccess":false,"masterConfig":{"imageUri":"gcr.io/demo-proj/train:1"},"region":"us-central1","scaleTier":"BASIC"}}""",
    "distributed": """{"jobId":"sub_b","trainingInput":{"args":["--steps","10"],"enableWebAccess":true,"jobDir":"gs://bkt/jobdir","masterConfig":{"acceleratorConfig":{"count":"1","type":"NVIDIA_TESLA_T4"},"imageUri":"gcr.io/demo-proj/train:1"},"masterType":"n1-standard-8","parameterServerConfig":{"imageUri":"gcr.io/demo-proj/train:1-ps"},"parameterServerCount":"1","parameterServerType":"n1-highmem-2","region":"us-central1","scaleTier":"CUSTOM","serviceAccount":"sa@demo-proj.iam.gserviceaccount.com","useChiefInTfConfig":true,"workerConfig":{"acceleratorConfig":{"count":"2","type":"NVIDIA_TESLA_P100"},"imageUri":"gcr.io/demo-proj/train:1-w"},"workerCount":"2","workerType":"n1-standard-4"}}""",
    "tuning": """{"jobId":"sub_c","labels":{"type":"prod"},"trainingInput":{"args":["--data","gs://bkt/d"],"enableWebAccess":false,"hyperparameters":{"algorithm":"RANDOM_SEARCH","enableTrialEarlyStopping":true,"goal":"MAXIMIZE","hyperparameterMetricTag":"accuracy","maxFailedTrials":1,"maxParallelTrials":2,"maxTrials":4,"params":[{"maxValue":0.1,"minValue":0.0001,"parameterName":"lr","scaleType":"UNIT_LOG_SCALE","type":"DOUBLE"},{"maxValue":256.0,"minValue":16.0,"parameterName":"units","scaleType":"UNIT_LINEAR_SCALE","type":"INTEGER"},{"categoricalValues":["adam","sgd"],"parameterName":"opt","type":"CATEGORICAL"},{"discreteValues":[16.0,32.0,64.0],"parameterName":"bs","type":"DISCRETE"}]},"masterConfig":{"acceleratorConfig":{"count":"1","type":"NVIDIA_TESLA_T4"},"imageUri":"gcr.io/demo-proj/train:1"},"masterType":"n1-standard-4","region":"us-central1","scaleTier":"CUSTOM","scheduling":{"maxRunningTime":"7200s","maxWaitTime":"3600s","priority":10},"workerCount":"2","workerType":"n1-standard-4"}}""",
}


@pytest.mark.parametrize("text", CAPTURED.values(), ids=CAPTURED.keys())
def test_what_gcloud_sends_comes_back_as_it_was(text: str) -> None:
    answered = Job.model_validate_json(text).to_wire()

    # As text: 16.0 and 16, "2" and 2 are different bytes.
    assert json.dumps(answered, sort_keys=True) == json.dumps(json.loads(text), sort_keys=True)


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ({"job": "x"}, ("job",)),
        ({"trainingInput": {"masterconfig": {}}}, ("trainingInput", "masterconfig")),
        (
            {"trainingInput": {"masterConfig": {"imageURI": "x"}}},
            ("trainingInput", "masterConfig", "imageURI"),
        ),
        (
            {"trainingInput": {"hyperparameters": {"params": [{}, {"name": "lr"}]}}},
            ("trainingInput", "hyperparameters", "params", 1, "name"),
        ),
    ],
)
def test_an_unknown_field_is_refused_with_its_path(sent: dict[str, Any], path: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as caught:
        Job.model_validate(sent)

    assert [(error["loc"], error["type"]) for error in caught.value.errors()] == [(path, "extra_forbidden")]


def test_an_unknown_enum_value_is_refused() -> None:
    with pytest.raises(ValidationError, match="scaleTier"):
        TrainingInput.model_validate({"scaleTier": "PREMIUM_2"})


def test_snake_case_is_accepted_and_camel_case_answered() -> None:
    sent = {"job_id": "a", "training_input": {"master_config": {"image_uri": "gcr.io/p/x"}}}

    answered = Job.model_validate(sent).to_wire()

    assert answered == {"jobId": "a", "trainingInput": {"masterConfig": {"imageUri": "gcr.io/p/x"}}}


def test_a_field_without_a_value_is_left_out_and_an_empty_one_is_not() -> None:
    job = Job(job_id="a", labels={}, error_message=None, training_input=TrainingInput(args=[]))

    assert job.to_wire() == {"jobId": "a", "labels": {}, "trainingInput": {"args": []}}


def test_a_model_cannot_be_changed() -> None:
    job = Job(job_id="a")

    with pytest.raises(ValidationError, match="frozen"):
        job.job_id = "b"  # type: ignore[misc]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_an_objective_that_is_no_number_is_still_answered_as_json(number: float) -> None:
    metric = wire.HyperparameterMetric(objective_value=number, training_step=1)

    json.dumps(metric.to_wire(), allow_nan=False)  # what the service's answers are made with


def _wire_values(annotation: Any) -> st.SearchStrategy[Any]:
    """Return random JSON for a field of that type."""
    annotation = _bare(annotation)
    arguments = get_args(annotation)
    if get_origin(annotation) is list:
        return st.lists(_wire_values(arguments[0]), max_size=2)
    if issubclass(annotation, WireModel):
        fields = annotation.model_fields.values()
        return st.fixed_dictionaries(
            {}, optional={str(field.alias): _wire_values(field.annotation) for field in fields}
        )
    if issubclass(annotation, Enum):
        return st.sampled_from([member.value for member in annotation])
    by_type: dict[type, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(-(2**31), 2**31 - 1) | st.integers(-(2**31), 2**31 - 1).map(str),
        float: st.floats(allow_nan=False, allow_infinity=False),
        str: st.text(max_size=8),
    }
    # int32 fields are numbers on the wire, int64 fields strings: both are accepted for both.
    return by_type[annotation]


@settings(max_examples=60, deadline=None)
@given(sent=_wire_values(TrainingInput))
def test_a_training_input_is_the_same_after_one_more_round_trip(sent: dict[str, Any]) -> None:
    once = TrainingInput.model_validate(sent).to_wire()

    twice = TrainingInput.model_validate_json(json.dumps(once)).to_wire()

    assert twice == once
    assert set(once) == set(sent)
