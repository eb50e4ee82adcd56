"""A filter of jobs, applied to a row in memory."""

from __future__ import annotations

from typing import Any

import pytest

from training_api.dialects.ml_v1.job_rows import JobRow
from training_api.errors import InvalidFilter
from training_api.filtering import parse_filter
from training_api.vertex_jobs.row_filter import matches

ROW: dict[str, Any] = {
    "jobId": "123",
    "displayName": "digits_1",
    "state": "RUNNING",
    "labels": {"airflow-dag": "train", "team": "vision"},
    "createTime": "2026-11-26T01:00:00Z",
}


@pytest.mark.parametrize(
    "filter_",
    [
        "",
        "state=RUNNING",
        "(state=FAILED OR state=RUNNING)",
        '(jobId:"git" OR displayName:"*git*")',
        "jobId:12",
        "displayName=digits_1",
        "labels.team:*",
        'labels.team="vision" AND labels.airflow-dag=train',
        "labels.team:vis",
        "NOT labels.team=sound",
        "labels.absent!=a",
        'createTime>="2026-11-26T01:00:00Z" AND createTime<"2026-11-26T02:00:00+00:00"',
        'createTime>"2026-11-26T00:59:59"',
    ],
)
def test_a_row_that_is_asked_for(filter_: str) -> None:
    assert matches(parse_filter(filter_), JobRow.model_validate(ROW))


@pytest.mark.parametrize(
    "filter_",
    [
        "state=FAILED",
        "state!=RUNNING",
        "jobId:digits",
        'displayName:"[d]igits"',
        'displayName:"digit?_1"',
        "labels.absent:*",
        "labels.team=Vision",
        'createTime<"2026-11-26T01:00:00Z"',
    ],
)
def test_a_row_that_is_not(filter_: str) -> None:
    assert not matches(parse_filter(filter_), JobRow.model_validate(ROW))


@pytest.mark.parametrize(
    ("filter_", "said"),
    [
        (
            "region=us",
            "jobs can be chosen by jobId, displayName, state, createTime and labels.KEY, got 'region=us'",
        ),
        ("state>RUNNING", "'state' is compared by = != or :, got '>'"),
        ("createTime:2026", "jobs can be chosen by"),
        ("createTime>yesterday", "'createTime' needs an RFC 3339 time"),
    ],
)
def test_what_cannot_be_asked_is_refused(filter_: str, said: str) -> None:
    with pytest.raises(InvalidFilter, match=said.replace("+", r"\+")):
        matches(parse_filter(filter_), JobRow.model_validate(ROW))
