"""No odd request breaks the service: it is accepted, or refused in the form of the API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.integration.live_service import IMAGE, run_service

PROJECT = "projects/demo-project"
JOB = f"{PROJECT}/jobs/job"


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of one service for all examples; it has the job ``JOB``."""
    with (
        run_service(tmp_path_factory.mktemp("service")) as service,
        httpx.Client(base_url=f"{service.endpoint}/v1/", trust_env=False) as http,
    ):
        body = {"jobId": "job", "trainingInput": {"masterConfig": {"imageUri": IMAGE}}}
        assert http.post(f"{PROJECT}/jobs", json=body).status_code == 200
        yield http


#: What fields really hold, what they might, and what they must not.
_TEXT = st.text(max_size=12) | st.sampled_from(
    ["", "0s", "1e9s", "1800s", "999999999999s", "gs://bucket/x", IMAGE, "n1-standard-4", "CUSTOM", "BASIC"]
)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | _TEXT
    | st.sampled_from(
        [2**63, -(2**63) - 1, 10**40, float("nan"), "\ud800", "\x00"]
    )  # and what breaks encoders
)
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)
_TRAINING = st.fixed_dictionaries(
    {},
    optional={
        "masterConfig": st.fixed_dictionaries(
            {"imageUri": st.just(IMAGE) | _SCALARS},
            optional={
                "containerArgs": st.lists(_TEXT, max_size=3) | _JSON,
                "diskConfig": _JSON,
                "acceleratorConfig": _JSON,
            },
        ),
        "scaleTier": st.sampled_from(["BASIC", "CUSTOM", "PREMIUM_1", "BASIC_GPU"]) | _SCALARS,
        "masterType": _SCALARS,
        "jobDir": _SCALARS,
        "workerCount": _SCALARS,
        "scheduling": st.fixed_dictionaries(
            {}, optional={"maxRunningTime": _TEXT, "maxWaitTime": _TEXT, "priority": _SCALARS}
        )
        | _JSON,
        "hyperparameters": _JSON,
        "args": st.lists(_TEXT, max_size=3) | _JSON,
        "region": _SCALARS,
    },
)
_BODIES = st.fixed_dictionaries(
    {"jobId": st.from_regex(r"\A[a-z][a-z0-9_]{6,20}\Z") | _SCALARS},
    optional={"trainingInput": _TRAINING | _JSON, "labels": _JSON, "etag": _SCALARS, "state": _SCALARS},
)


@settings(max_examples=60, deadline=None)
@given(body=_BODIES | _JSON)
@example(body={"jobId": "surrogate", "\ud800": 1})
@example(body={"jobId": "surrogate", "labels": {"\ud800": "\udfff"}})
@example(
    body={"jobId": "surrogate", "trainingInput": {"masterConfig": {"imageUri": IMAGE}, "region": "\ud800"}}
)
@example(
    body={"jobId": "surrogate", "trainingInput": {"masterConfig": {"imageUri": IMAGE}, "args": ["\udfff"]}}
)
@example(
    body={
        "jobId": "long_limits",
        "trainingInput": {
            "masterConfig": {"imageUri": IMAGE, "containerArgs": ["\x00"]},
            "scheduling": {"maxRunningTime": "999999999999s", "maxWaitTime": "999999999999s"},
        },
    }
)
def test_no_job_breaks_the_service(http: httpx.Client, body: Any) -> None:
    # As bytes that a hostile client could send: NaN and lone surrogates included.
    content = json.dumps(body).encode()

    created = http.post(f"{PROJECT}/jobs", content=content, headers={"content-type": "application/json"})

    assert created.status_code in (200, 400, 409), created.text
    if created.status_code == 200:
        name = f"{PROJECT}/jobs/{created.json()['jobId']}"
        assert http.get(name).json()["trainingInput"] == created.json()["trainingInput"]
    else:
        assert created.json()["error"]["code"] == created.status_code


@settings(max_examples=40, deadline=None)
@given(
    method=st.sampled_from(["PATCH :", "POST :setIamPolicy", "POST :testIamPermissions", "POST :cancel"]),
    mask=_TEXT | st.sampled_from(["labels", "etag", "labels,etag"]),
    body=_JSON | st.fixed_dictionaries({}, optional={"labels": _JSON, "policy": _JSON, "permissions": _JSON}),
)
def test_no_other_request_breaks_the_service(http: httpx.Client, method: str, mask: str, body: Any) -> None:
    verb, _, suffix = method.partition(" ")
    path = JOB if suffix == ":" else JOB + suffix

    response = http.request(
        verb,
        path,
        params={"updateMask": mask},
        content=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )

    assert response.status_code in (200, 400, 409), response.text
