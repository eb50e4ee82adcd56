"""What clients send as JSON, and its one canonical form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training_api.errors import InvalidRequest
from training_service.api.vertex_v1.canonical import canonical, with_integer_enums
from training_service.api.vertex_v1.messages import message_class

#: As the SDK sends it over REST (contract A2): enums are integers, 64-bit integers texts, unused pools empty.
OF_SDK: dict[str, Any] = {
    "displayName": "job",
    "labels": {"vertex_pipelines": ""},
    "jobSpec": {
        "workerPoolSpecs": [
            {
                "machineSpec": {"machineType": "n1-standard-4", "acceleratorType": 5, "acceleratorCount": 1},
                "replicaCount": "1",
                "containerSpec": {"imageUri": "r.test/p/i:1", "env": [{"name": "A", "value": "$(B)"}]},
            },
            {},
        ],
        "scheduling": {"timeout": "3600s", "strategy": 4},
    },
}


def broken(name: str, body: Any, root: str = "custom_job") -> list[tuple[str, str]]:
    with pytest.raises(InvalidRequest) as caught:
        canonical(name, body, root)
    return [(each.field, each.description) for each in caught.value.violations]


def test_enums_may_be_integers_and_come_back_as_names() -> None:
    found = canonical("CustomJob", OF_SDK)

    assert found["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]["acceleratorType"] == "NVIDIA_TESLA_T4"
    assert found["jobSpec"]["scheduling"] == {"timeout": "3600s", "strategy": "SPOT"}
    assert found["jobSpec"]["workerPoolSpecs"][1] == {}
    assert found["labels"] == {"vertex_pipelines": ""}


def test_a_client_that_asks_for_integers_gets_them() -> None:
    found = with_integer_enums(
        "CustomJob", {**canonical("CustomJob", OF_SDK), "state": "JOB_STATE_SUCCEEDED"}
    )

    assert found["state"] == 4
    assert found["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]["acceleratorType"] == 5


def test_task_inputs_of_the_sdk_are_read_by_the_message_they_are() -> None:
    """Two spellings in one object, integers as numbers with a fraction, nulls (contract A2)."""
    inputs = {
        "worker_pool_specs": [
            {
                "replica_count": 1.0,
                "machine_spec": {"machine_type": "n1-standard-4"},
                "disk_spec": {"boot_disk_size_gb": 100.0, "boot_disk_type": "pd-ssd"},
                "containerSpec": {"imageUri": "r.test/p/i:1"},
            }
        ],
        "base_output_directory": {
            "output_uri_prefix": "gs://b/aiplatform-custom-job-2026-11-21-20:57:00.963"
        },
        "scheduling": {"timeout": "3600s", "max_wait_duration": None, "strategy": None},
    }
    pipeline = canonical("TrainingPipeline", {"displayName": "p", "trainingTaskInputs": inputs})

    assert canonical("CustomJobSpec", pipeline["trainingTaskInputs"]) == {
        "workerPoolSpecs": [
            {
                "replicaCount": "1",
                "machineSpec": {"machineType": "n1-standard-4"},
                "diskSpec": {"bootDiskSizeGb": 100, "bootDiskType": "pd-ssd"},
                "containerSpec": {"imageUri": "r.test/p/i:1"},
            }
        ],
        "baseOutputDirectory": {"outputUriPrefix": "gs://b/aiplatform-custom-job-2026-11-21-20:57:00.963"},
        "scheduling": {"timeout": "3600s"},
    }


def test_an_absent_zero_stays_absent() -> None:
    spec = {"parameters": [{"parameterId": "x", "doubleValueSpec": {"minValue": 0, "maxValue": 1}}]}

    assert canonical("StudySpec", spec)["parameters"][0]["doubleValueSpec"] == {"maxValue": 1.0}


def test_unknown_names_are_told_with_their_path_all_of_them() -> None:
    body = {"foo": 1, "jobSpec": {"workerPoolSpecs": [{"containerSpec": {"image": "i"}}]}}

    assert broken("CustomJob", body) == [
        ("foo", "Unknown name \"foo\" at 'custom_job': Cannot find field."),
        (
            "jobSpec.workerPoolSpecs[0].containerSpec.image",
            "Unknown name \"image\" at 'custom_job.job_spec.worker_pool_specs[0].container_spec': Cannot find field.",
        ),
    ]


@pytest.mark.parametrize(
    ("spec", "place", "rule"),
    [
        ({"scheduling": {"timeout": "1h"}}, "scheduling.timeout", "must be seconds followed by 's'"),
        ({"scheduling": {"timeout": 3600}}, "scheduling.timeout", "must be seconds followed by 's'"),
        ({"scheduling": {"strategy": 99}}, "scheduling.strategy", "must be one of STRATEGY_UNSPECIFIED, "),
        ({"scheduling": {"strategy": "FAST"}}, "scheduling.strategy", "got 'FAST'"),
        ({"scheduling": {"strategy": True}}, "scheduling.strategy", "got True"),
        (
            {"workerPoolSpecs": [{"replicaCount": 1.5}]},
            "workerPoolSpecs[0].replicaCount",
            "an integer of 64 bits",
        ),
        ({"workerPoolSpecs": [{"replicaCount": 1e30}]}, "workerPoolSpecs[0].replicaCount", "got 1e+30"),
        ({"workerPoolSpecs": [{"replicaCount": True}]}, "workerPoolSpecs[0].replicaCount", "got True"),
        ({"workerPoolSpecs": [None]}, "workerPoolSpecs[0]", "must be an object; got None"),
        ({"workerPoolSpecs": {}}, "workerPoolSpecs", "must be a list; got {}"),
        (
            {"workerPoolSpecs": [{"diskSpec": {"bootDiskSizeGb": 2**31}}]},
            "workerPoolSpecs[0].diskSpec.bootDiskSizeGb",
            "must be an integer of 32 bits; got 2147483648",
        ),
        (
            {"workerPoolSpecs": [{"containerSpec": {"command": ["a", 1]}}]},
            "workerPoolSpecs[0].containerSpec.command[1]",
            "must be text",
        ),
        ({"enableWebAccess": "true"}, "enableWebAccess", "must be true or false; got 'true'"),
        ({"serviceAccount": "a\0b"}, "serviceAccount", "without NUL"),
        ({"serviceAccount": "\ud800"}, "serviceAccount", "lone surrogates"),
        (
            {"workerPoolSpecs": [{"containerSpec": {}, "pythonPackageSpec": {}}]},
            "workerPoolSpecs[0].pythonPackageSpec",
            "cannot be set together with 'containerSpec'; leave one of the two out",
        ),
        ({"serviceAccount": "a", "service_account": "b"}, "serviceAccount", "together with 'serviceAccount'"),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_place_and_rule(spec: Any, place: str, rule: str) -> None:
    ((field, description),) = broken("CustomJobSpec", spec)

    assert field == place
    assert rule in description


@pytest.mark.parametrize("body", [None, [], "x", 1])
def test_a_body_that_is_no_object_is_refused(body: Any) -> None:
    assert broken("CustomJob", body) == [("custom_job", f"must be an object; got {body!r}")]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": "\0"}, {"\0": 1}])
def test_task_inputs_hold_only_what_json_can_say(value: Any) -> None:
    ((field, description),) = broken("TrainingPipeline", {"trainingTaskInputs": value})

    assert field == "trainingTaskInputs"
    assert "must be a JSON value without NUL, NaN" in description


def test_nesting_has_an_end() -> None:
    deep: Any = {}
    for _ in range(200):
        deep = {"conditionalParameterSpecs": [{"parameterSpec": deep}]}

    ((field, description),) = broken("StudySpec", {"parameters": [deep]})

    assert field.startswith("parameters[0].conditionalParameterSpecs[0].parameterSpec")
    assert "must not lie more than 30 fields deep" in description


def test_an_answer_names_a_bounded_number_of_mistakes_and_shows_little_of_each() -> None:
    found = broken("CustomJob", {f"{'x' * 1000}{number}": 1 for number in range(1000)})

    assert len(found) == 50
    assert all(len(field) + len(description) < 400 for field, description in found)


#: JSON that has something of a job: names of its fields, in any place.
_NAMES = st.sampled_from(
    [
        field.name
        for name in ("CustomJob", "CustomJobSpec", "WorkerPoolSpec", "MachineSpec", "Scheduling", "StudySpec")
        for field in message_class(name).DESCRIPTOR.fields
    ]
)
_LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["3s", "0", "1e9"])
)
_JSON = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(_NAMES | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=15,
)


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(["CustomJob", "HyperparameterTuningJob", "TrainingPipeline", "CustomJobSpec"]),
    body=_JSON,
)
def test_any_json_is_read_or_refused_and_what_is_read_stays_as_it_is(name: str, body: Any) -> None:
    try:
        found = canonical(name, body)
    except InvalidRequest:
        return

    assert canonical(name, json.loads(json.dumps(found))) == found
    with_integer_enums(name, found)
