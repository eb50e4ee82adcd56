"""Jobs as AI Platform Training v1 shows them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.support.fakes.job_requests import make_spec
from training_api.causes import Cause
from training_api.job.tuning.measurement import Report
from training_api.states import JobState
from training_service.api.ml_v1.writer import job_of, page_of
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord, TrialSummary
from training_service.model.tuning_output import TrialOutput, TuningOutput
from training_service.use_cases.jobs import JobPage, JobView

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
REQUEST = {"region": "us-central1", "masterConfig": {"imageUri": "gcr.io/demo/train:1"}, "args": ["--a"]}
RECORD = JobRecord(
    uid="uid", sequence=1, spec=make_spec(), state=JobState.QUEUED, created_at=NOON, request=REQUEST
)


def test_a_new_job_has_its_request_as_it_was_sent() -> None:
    assert job_of(JobView(record=RECORD, position=3)).to_wire() == {
        "jobId": "digits_1",
        "trainingInput": REQUEST,
        "state": "QUEUED",
        "createTime": "2026-11-20T12:00:00.000000Z",
        "jobPosition": "3",
        "etag": "AAAAAAAAAAE=",
    }


def test_a_field_that_this_version_does_not_know_is_left_out() -> None:
    record = replace(RECORD, request={**REQUEST, "ofAnotherVersion": 1})

    assert job_of(JobView(record=record)).to_wire()["trainingInput"] == REQUEST


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (JobState.RUNNING, None),  # what runs is being stopped
        (JobState.FAILED, "It failed."),
        (JobState.CANCELLING, "It failed."),
        (JobState.CANCELLED, "It failed."),
        (JobState.SUCCEEDED, None),
    ],
)
def test_an_error_is_shown_once_the_state_says_so(state: JobState, shown: str | None) -> None:
    record = replace(RECORD, state=state, reason=Reason(cause=Cause.UNKNOWN, message="It failed."))

    assert job_of(JobView(record=record)).error_message == shown


def test_a_tuning_job_has_its_trials() -> None:
    trials = [
        TrialOutput(
            trial=TrialSummary(
                uid=f"trial-{number}",
                study_uid="uid",
                number=number,
                hyperparameters={"lr": "0.5"},
                state=state,
                running_at=NOON,
                ended_at=None,
                stopped="a curve" if number == 1 else "",
            ),
            final=report,
            reports=[report] if report else [],
        )
        for number, state, report in (
            (1, JobState.SUCCEEDED, Report(tag="loss", step=7, value=0.5, reported_us=0)),
            (2, JobState.RUNNING, None),
        )
    ]
    tuning = TuningOutput(metric_tag="loss", trials=trials)

    measured = {"objectiveValue": 0.5, "trainingStep": "7"}
    common = {"hyperparameters": {"lr": "0.5"}, "startTime": "2026-11-20T12:00:00.000000Z"}
    assert job_of(JobView(record=RECORD, tuning=tuning)).to_wire()["trainingOutput"] == {
        "isHyperparameterTuningJob": True,
        "hyperparameterMetricTag": "loss",
        "completedTrialCount": "1",
        "trials": [
            {
                **common,
                "trialId": "1",
                "state": "SUCCEEDED",
                "finalMetric": measured,
                "allMetrics": [measured],
                "isTrialStoppedEarly": True,
            },
            {**common, "trialId": "2", "state": "RUNNING"},
        ],
    }


def test_an_empty_page_has_no_fields() -> None:
    assert page_of(JobPage(jobs=[])).to_wire() == {}
    assert page_of(JobPage(jobs=[JobView(record=RECORD)], next_page_token="t")).to_wire().keys() == {
        "jobs",
        "nextPageToken",
    }
