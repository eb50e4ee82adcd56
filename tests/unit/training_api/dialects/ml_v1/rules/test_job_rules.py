"""The rules of a job as a whole: its id, its labels, the forms of its fields, its limits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.support.fakes.job_requests import make_job, make_spec, violations_of
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.rules.job_rules import DEFAULT_RUNNING, JOB_ID_RULE, parse_duration

JOB_DIR_RULE = "must be a Cloud Storage path gs://BUCKET/FOLDER; got "
KMS_RULE = "must be projects/PROJECT/locations/REGION/keyRings/RING/cryptoKeys/KEY; got "
DURATION_RULE = "must be seconds followed by 's', like '3600s'; got "


@pytest.mark.parametrize("job_id", ["a", "Z9", "digits_1", "a" * 128, "a__"])
def test_a_good_job_id_is_kept(job_id: str) -> None:
    assert make_spec(job_id=job_id).job_id == job_id


@pytest.mark.parametrize(
    "job_id", [None, "", "1a", "_a", "a-b", "a.b", "a b", "é", "a" * 129, "a\n", "a/b", "a:cancel"]
)
def test_a_bad_job_id_is_refused(job_id: str | None) -> None:
    assert violations_of(make_job(job_id=job_id)) == [("jobId", f"{JOB_ID_RULE}; got {job_id!r}")]


@pytest.mark.parametrize(
    "labels",
    [
        None,
        {},
        {"env": "dev"},
        {"a-b_c9": "x-y_z9", "empty": ""},
        {"a" * 63: "b" * 63},
        {f"k{number}": "v" for number in range(64)},
    ],
)
def test_good_labels_are_kept(labels: dict[str, str] | None) -> None:
    assert make_spec(labels=labels).labels == (labels or {})


@pytest.mark.parametrize("key", ["", "Env", "1env", "-env", "_env", "env.dev", "é", "a" * 64])
def test_a_bad_label_key_is_refused(key: str) -> None:
    rule = f"key {key!r} must start with a-z, hold only [a-z0-9_-], and be at most 63 long"

    assert violations_of(make_job(labels={key: "x"})) == [("labels", rule)]


@pytest.mark.parametrize("value", ["Dev", "a b", "a.b", "é", "a" * 64])
def test_a_bad_label_value_is_refused(value: str) -> None:
    rule = f"value {value!r} of 'env' must hold only [a-z0-9_-] and be at most 63 long"

    assert violations_of(make_job(labels={"env": value})) == [("labels", rule)]


def test_more_than_64_labels_are_refused() -> None:
    labels = {f"k{number}": "v" for number in range(65)}

    assert violations_of(make_job(labels=labels)) == [("labels", "must be at most 64, got 65")]


@pytest.mark.parametrize(
    ("field", "value", "path", "why"),
    [
        (
            "enable_web_access",
            True,
            "trainingInput.enableWebAccess",
            "this service has no interactive shells; leave it out and use `docker exec` on its machine",
        ),
    ],
)
def test_what_is_not_there_yet_is_refused_by_name(field: str, value: Any, path: str, why: str) -> None:
    assert violations_of(make_job(**{field: value})) == [(path, why)]


@pytest.mark.parametrize(
    "changes",
    [
        {"encryption_config": {}},
        {"encryption_config": {"kms_key_name": ""}},
        {"encryption_config": {"kms_key_name": "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"}},
        {"network": ""},
        {"network": "projects/12345/global/networks/myVPC"},
        {"network": "projects/demo/global/networks/default"},
        {"service_account": ""},
        {"service_account": "sa@demo.iam.gserviceaccount.com"},
        {"master": {"disk_config": {}}},
        {"master": {"disk_config": {"boot_disk_type": "pd-ssd", "boot_disk_size_gb": 0}}},
        {"master": {"disk_config": {"boot_disk_type": "pd-standard", "boot_disk_size_gb": 500}}},
    ],
)
def test_a_good_form_is_taken_and_changes_nothing_that_runs(changes: dict[str, Any]) -> None:
    job = make_job(**changes)

    spec = job_spec_from_wire("demo", job)

    assert spec.replicas == make_spec().replicas


@pytest.mark.parametrize(
    ("changes", "path", "description"),
    [
        (
            {"encryption_config": {"kms_key_name": "key"}},
            "encryptionConfig.kmsKeyName",
            KMS_RULE + "'key'",
        ),
        (
            {"encryption_config": {"kms_key_name": "projects/p/locations/l/keyRings/r/cryptoKeys/"}},
            "encryptionConfig.kmsKeyName",
            KMS_RULE + "'projects/p/locations/l/keyRings/r/cryptoKeys/'",
        ),
        (
            {"network": "default"},
            "network",
            "must be projects/PROJECT/global/networks/NETWORK; got 'default'",
        ),
        (
            {"network": "projects/p/global/networks/n/x"},
            "network",
            "must be projects/PROJECT/global/networks/NETWORK; got 'projects/p/global/networks/n/x'",
        ),
        ({"service_account": "sa"}, "serviceAccount", "must be an email address NAME@DOMAIN; got 'sa'"),
        (
            {"service_account": "sa @demo.com"},
            "serviceAccount",
            "must be an email address NAME@DOMAIN; got 'sa @demo.com'",
        ),
        (
            {"master": {"disk_config": {"boot_disk_type": "PD-SSD"}}},
            "masterConfig.diskConfig.bootDiskType",
            "must be pd-ssd or pd-standard; got 'PD-SSD'",
        ),
        (
            {"master": {"disk_config": {"boot_disk_size_gb": -1}}},
            "masterConfig.diskConfig.bootDiskSizeGb",
            "must not be negative; got -1",
        ),
    ],
)
def test_any_other_form_is_refused(changes: dict[str, Any], path: str, description: str) -> None:
    assert violations_of(make_job(**changes)) == [(f"trainingInput.{path}", description)]


@pytest.mark.parametrize("job_dir", ["gs://bkt", "gs://bkt/", "gs://bkt/a/b c", "gs://my.bkt_1-x/ü"])
def test_a_job_dir_is_a_place_in_a_bucket(job_dir: str) -> None:
    assert make_spec(job_dir=job_dir).output_dir == job_dir


@pytest.mark.parametrize(
    "job_dir",
    [
        "",
        "/tmp/d",
        "bkt/d",
        "s3://bkt/d",
        "gs://",
        "gs:///d",
        "gs://B/d",
        "gs://b",
        "gs://-bkt/d",
        "gs://bkt?x",
    ],
)
def test_any_other_job_dir_is_refused(job_dir: str) -> None:
    assert violations_of(make_job(job_dir=job_dir)) == [
        ("trainingInput.jobDir", JOB_DIR_RULE + repr(job_dir))
    ]


@pytest.mark.parametrize(
    ("scheduling", "expected"),
    [
        ({}, (None, DEFAULT_RUNNING, 0)),
        ({"maxWaitTime": "1800s"}, (timedelta(minutes=30), DEFAULT_RUNNING, 0)),
        ({"maxRunningTime": "7200s"}, (None, timedelta(hours=2), 0)),
        ({"maxRunningTime": "0.5s"}, (None, timedelta(milliseconds=500), 0)),
        ({"priority": 1000}, (None, DEFAULT_RUNNING, 1000)),
        (
            {"maxWaitTime": "3600s", "maxRunningTime": "1209600s", "priority": 10},
            (timedelta(hours=1), timedelta(days=14), 10),
        ),
    ],
)
def test_limits_and_priority_are_read(
    scheduling: dict[str, Any], expected: tuple[timedelta | None, timedelta, int]
) -> None:
    spec = make_spec(scheduling=scheduling)

    assert (spec.max_wait, spec.max_running, spec.priority) == expected


@pytest.mark.parametrize(
    ("scheduling", "field", "description"),
    [
        ({"maxWaitTime": "1799.9s"}, "maxWaitTime", "must be at least 1800s, got 1799.9s"),
        ({"maxWaitTime": "0s"}, "maxWaitTime", "must be at least 1800s, got 0s"),
        ({"maxWaitTime": "30m"}, "maxWaitTime", DURATION_RULE + "'30m'"),
        ({"maxRunningTime": "0s"}, "maxRunningTime", "must be more than 0s"),
        ({"maxRunningTime": ""}, "maxRunningTime", DURATION_RULE + "''"),
        ({"priority": -1}, "priority", "must be from 0 to 1000, got -1"),
        ({"priority": 1001}, "priority", "must be from 0 to 1000, got 1001"),
    ],
)
def test_bad_limits_and_priorities_are_refused(
    scheduling: dict[str, Any], field: str, description: str
) -> None:
    assert violations_of(make_job(scheduling=scheduling)) == [
        (f"trainingInput.scheduling.{field}", description)
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0),
        ("1800s", 1800),
        ("0007s", 7),
        ("3600.5s", 3600.5),
        ("0.000001s", 0.000001),
        ("1.123456789s", 1.123457),
        ("999999999999s", 999999999999),
    ],
)
def test_a_duration_is_seconds_with_up_to_nine_fractional_digits(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "3600",
        "1h",
        "-1s",
        "+1s",
        ".5s",
        "5.s",
        "1.1234567890s",
        "1000000000000s",
        " 1s",
        "1s\n",
        "1 s",
        "1S",
        "1e3s",
        "1_000s",
        "1,5s",
        "nans",
        "\u0661\u0668\u0660\u0660s",  # digits, but not those of the format
    ],
)
def test_any_other_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be seconds followed by 's', like '3600s'") as caught:
        parse_duration(text)

    assert str(caught.value) == DURATION_RULE + repr(text)
