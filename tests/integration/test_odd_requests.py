"""No odd request breaks the service: it is accepted, or refused in the form of the API."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.integration.live_service import IMAGE, run_service
from tests.support import web

PROJECT = "projects/demo-project"
PARENT = f"/v1/{PROJECT}/jobs"
JOB = f"{PARENT}/job"


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of one service for all examples; it has the job ``JOB``."""
    with (
        run_service(tmp_path_factory.mktemp("service")) as service,
        web.client(base_url=service.endpoint) as http,
    ):
        body = {"jobId": "job", "trainingInput": {"masterConfig": {"imageUri": IMAGE}}}
        assert http.post(PARENT, json=body).status_code == 200
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

    created = http.post(PARENT, content=content, headers={"content-type": "application/json"})

    assert created.status_code in (200, 400, 409), created.text
    if created.status_code == 200:
        name = f"{PARENT}/{created.json()['jobId']}"
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


LISTS = (f"GET {PARENT}", f"POST /ops/v1/{PROJECT}/jobs:search", "POST /v2/entries:list")


def list_page(http: httpx.Client, method_and_path: str, asked: dict[str, Any]) -> httpx.Response:
    """Ask for one page of a list, as a hostile client could."""
    method, _, path = method_and_path.partition(" ")
    if method == "GET":
        return http.get(path, params={name: str(value) for name, value in asked.items()})
    body = asked | ({"resourceNames": [PROJECT]} if path.startswith("/v2") else {})
    return http.post(path, content=json.dumps(body).encode(), headers={"content-type": "application/json"})


def assert_taken_or_refused(response: httpx.Response, field: str) -> None:
    """Assert that the answer is one, or says in the form of the API which ``field`` is wrong."""
    assert response.status_code in (200, 400), response.text
    if response.status_code == 400:
        error = response.json()["error"]
        (violation, *_) = error["details"][0]["fieldViolations"]
        assert (error["status"], violation["field"]) == ("INVALID_ARGUMENT", field)
        assert len(error["message"]) < 2000


def token_of(place: str) -> str:
    """Return the page token of ``entries:list`` that would stand for ``place``."""
    return base64.urlsafe_b64encode(place.encode()).decode()


_PATHS = st.sampled_from(
    ["jobId", "state", "createTime", "endTime", "labels.team", 'labels."a\\"b"', "severity", "timestamp"]
) | st.sampled_from(["textPayload", "insertId", "jsonPayload.a.b", 'jsonPayload."\\"', "jsonPayload.", "x"])
_VALUES = (
    st.text(max_size=8)
    | st.integers().map(str)
    | st.sampled_from(["9" * 5000, "1e999", "nan", "*", "€" * 5000, "0001-01-01T00:00:00+14:00", "ERROR"])
    | st.sampled_from(["\ud800", "\x00", "²", "2026-01-31T12:00:00Z"])
)
_COMPARED = st.builds(
    lambda path, op, value: f"{path}{op}{json.dumps(value, ensure_ascii=False)}",
    _PATHS,
    st.sampled_from(["=", "!=", "<", ">=", ":"]),
    _VALUES,
)
_FILTERS = (
    st.text(max_size=20)
    | _COMPARED
    | st.builds(
        lambda terms, joint, repeats: joint.join(terms * repeats),
        st.lists(_COMPARED, min_size=1, max_size=3),
        st.sampled_from([" OR ", " AND ", " OR NOT ", " "]),
        st.sampled_from([1, 2, 160, 600]),
    )
)
_NUMBERS = st.integers() | st.sampled_from([2**63 - 1, 2**63, -(2**63) - 1, 2**70, 10**400])
_TOKENS = (
    st.text(max_size=12)
    | st.builds(lambda first, second: f"{first}-{second}", _NUMBERS, _NUMBERS)
    | st.builds(
        lambda first, key, last: token_of(json.dumps([first, key, last])),
        _NUMBERS | st.floats() | st.booleans(),
        st.text(max_size=4) | st.sampled_from(["\ud800", "\x00"]) | _NUMBERS,
        _NUMBERS,
    )
    | st.sampled_from([token_of("[" * 700), token_of("[" * 50_000), "9" * 5000, "\ud800"])
)


def can_be_asked(method_and_path: str, text: str) -> bool:
    """Tell whether a query can carry ``text``: UTF-8 that fits into a line of HTTP."""
    return method_and_path.startswith("POST") or (text.isprintable() and len(quote(text)) < 60_000)


@pytest.mark.parametrize("asked", LISTS)
@settings(max_examples=40, deadline=None)
@given(filter_text=_FILTERS)
@example(filter_text="state=RUNNING" + " OR state:RUNNING" * 1100)
@example(filter_text=" OR ".join(["severity=ERROR"] * 1100))
@example(filter_text="severity>=" + "9" * 5000)
@example(filter_text='textPayload:"' + "€" * 19_000 + '"')
@example(filter_text='jobId:"\ud800"')
@example(filter_text='labels."a\\"b"=1')
@example(filter_text='jsonPayload."a\x00b"=1')
def test_no_filter_breaks_the_service(http: httpx.Client, asked: str, filter_text: str) -> None:
    if can_be_asked(asked, filter_text):
        assert_taken_or_refused(list_page(http, asked, {"filter": filter_text}), "filter")


@pytest.mark.parametrize("asked", LISTS)
@settings(max_examples=40, deadline=None)
@given(token=_TOKENS)
@example(token=token_of(json.dumps([2**70, "a", 1])))
@example(token=token_of(json.dumps([1, "\ud800", 1])))
@example(token=token_of('[1e999, "a", 1]'))
def test_no_page_token_breaks_the_service(http: httpx.Client, asked: str, token: str) -> None:
    if can_be_asked(asked, token):
        assert_taken_or_refused(list_page(http, asked, {"pageToken": token}), "pageToken")


@pytest.mark.parametrize("asked", [*LISTS, f"GET /v1/{PROJECT}/locations"])
@settings(max_examples=20, deadline=None)
@given(size=_NUMBERS)
@example(size=0)
@example(size=-1)
def test_a_page_of_any_size_follows_the_one_rule(http: httpx.Client, asked: str, size: int) -> None:
    response = list_page(http, asked, {"pageSize": size})

    assert_taken_or_refused(response, "pageSize")
    assert response.status_code == (200 if 0 <= size < 2**31 else 400)
