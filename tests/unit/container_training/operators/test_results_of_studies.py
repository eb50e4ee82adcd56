"""The result of a tuning job: its best trial, all trials as a table, and what it cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.fake_service import EPOCH, PROJECT, FakeService
from tests.support.fakes.tuning_jobs import make_trial, make_tuning_job
from tests.unit.container_training.operators.test_results import collect
from training_api.job.results import JobResult
from training_api.states import JobState

TRIALS = (
    make_trial(1, 0.91),
    make_trial(2, 0.97, start=10),
    make_trial(3, None, state="FAILED", seconds=2),
    make_trial(4, 0.5, isTrialStoppedEarly=True, seconds=3),
)


@pytest.fixture
def tuned(service: FakeService, bucket: FakeBucket) -> FakeService:
    """Return a service whose tuning job has succeeded; each trial left its files."""
    add(service)
    bucket.objects = {
        f"jobs/digits_1/{trial}/{name}": content
        for trial, accuracy in (("1", "0.91"), ("2", "0.97"))
        for name, content in (
            ("metrics.json", f'{{"accuracy": {accuracy}}}'.encode()),
            ("model.joblib", b"model"),
        )
    }
    return service


def add(service: FakeService, *trials: dict[str, Any], **changes: Any) -> None:
    fields = {
        "state": JobState.SUCCEEDED,
        "start_time": EPOCH + timedelta(seconds=1),
        "end_time": EPOCH + timedelta(seconds=21),
    }
    service.add(make_tuning_job(*(trials or TRIALS), **{**fields, **changes}))


def test_the_result_is_that_of_the_best_trial(tuned: FakeService, context: Any) -> None:
    result = collect(context)

    assert result.metrics == {"accuracy": 0.97}
    assert result.job_dir == "gs://bucket/jobs/digits_1"
    assert result.model_uri == "gs://bucket/jobs/digits_1/2/model.joblib"
    assert [file.uri.rpartition("digits_1/")[2] for file in result.files] == [
        "2/metrics.json",
        "2/model.joblib",
    ]
    assert result.study is not None
    assert result.study.best is not None
    assert result.study.best.model_dump() == {
        "trial_id": "2",
        "objective": 0.97,
        "step": 30,
        "hyperparameters": {"lr": "0.02", "units": "64", "optimizer": "adam"},
        "args": ["--lr=0.02", "--units=64", "--optimizer=adam"],
        "job_dir": "gs://bucket/jobs/digits_1/2",
        "model_uri": "gs://bucket/jobs/digits_1/2/model.joblib",
    }


def test_the_study_has_its_figures_and_a_row_a_trial(tuned: FakeService, context: Any) -> None:
    study = collect(context).study

    assert study is not None
    assert (study.completed, study.failed, study.stopped_early, study.cancelled) == (3, 1, 1, 0)
    assert [(row.trial_id, row.state.value, row.objective) for row in study.trials] == [
        ("1", "SUCCEEDED", 0.91),
        ("2", "SUCCEEDED", 0.97),
        ("3", "FAILED", None),
        ("4", "SUCCEEDED", 0.5),
    ]


def test_the_table_is_bounded(tuned: FakeService, context: Any) -> None:
    study = collect(context, max_trials=2).study

    assert study is not None
    assert [row.trial_id for row in study.trials] == ["1", "2"]
    assert study.trials_left_out == 2


def test_of_a_thousand_trials_the_output_stays_small(tuned: FakeService, context: Any) -> None:
    add(tuned, *(make_trial(number, number / 1000) for number in range(1, 1001)))

    result = collect(context)

    assert result.study is not None
    assert (len(result.study.trials), result.study.trials_left_out) == (500, 500)
    assert len(result.model_dump_json()) < 150_000


def test_the_arguments_of_the_best_trial_are_an_output_of_their_own(tuned: FakeService, context: Any) -> None:
    collect(context)

    context["ti"].xcom_push.assert_any_call(
        key="best_trial_args", value=["--lr=0.02", "--units=64", "--optimizer=adam"]
    )


def test_the_log_has_the_table(tuned: FakeService, context: Any, log_lines: Sequence[str]) -> None:
    collect(context)

    assert (
        "trials: 3 done (1 stopped early), 0 running, 1 failed of 50; best accuracy 0.97 (trial 2)"
        in log_lines
    )
    assert "trial 3: no result, FAILED, 2.0 s, lr=0.03 units=64 optimizer=adam" in log_lines


def test_with_prices_each_trial_and_the_job_have_their_cost(
    tuned: FakeService, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"project": PROJECT, "prices": '{"n1-standard-4": 0.1}', "currency": "EUR"}
    connection = {"conn_type": "container_training", "host": "training.test", "port": 8470, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))

    result = collect(context)

    assert result.study is not None
    assert [row.cost for row in result.study.trials] == pytest.approx([1.0, 1.0, 0.2, 0.3])
    assert result.cost is not None
    assert result.cost.model_dump() == pytest.approx(
        {"total": 2.5, "currency": "EUR", "per_second": 0.1, "seconds": 25.0}
    )


def test_the_states_of_trials_are_not_those_of_the_job(tuned: FakeService, context: Any) -> None:
    for seconds, state, fields in (
        (1, "RUNNING", {}),
        (2, "RUNNING", {"trial_id": "1"}),
        (3, "SUCCEEDED", {"trial_id": "1"}),
        (21, "SUCCEEDED", {}),
    ):
        moment = EPOCH + timedelta(seconds=seconds)
        tuned.write("digits_1", {"state": state}, task_name="service", timestamp=moment, **fields)

    assert collect(context).seconds.running == 20.0


def test_without_prices_there_is_no_cost(tuned: FakeService, context: Any) -> None:
    assert collect(context).cost is None


def test_a_trial_without_files_still_has_its_objective(
    tuned: FakeService, bucket: FakeBucket, context: Any
) -> None:
    bucket.objects.clear()

    result = collect(context)

    assert (result.metrics, result.model_uri, result.files) == ({"accuracy": 0.97}, None, [])


def test_a_study_without_a_result_names_the_metric_it_missed(tuned: FakeService, context: Any) -> None:
    add(tuned, make_trial(1, "NaN"), make_trial(2, None, state="FAILED"))

    with pytest.raises(
        AirflowFailException, match=r"no trial of job 'digits_1' ended with a finite 'accuracy'"
    ):
        collect(context)


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.FAILED])
def test_a_cancelled_study_gives_its_best_trial_only_where_that_is_asked_for(
    tuned: FakeService, context: Any, state: JobState
) -> None:
    add(tuned, state=state)

    with pytest.raises(AirflowFailException, match=f"JobFailed: job 'digits_1' ended as {state}"):
        collect(context)
    result = collect(context, accept_partial=True)

    assert result.state is state
    assert result.study is not None
    assert result.study.best is not None


def test_a_cancelled_study_without_a_result_has_nothing_to_give(tuned: FakeService, context: Any) -> None:
    add(tuned, make_trial(1, 0.5, state="CANCELLED"), state=JobState.CANCELLED)

    with pytest.raises(AirflowFailException, match="JobFailed"):
        collect(context, accept_partial=True)


def test_a_result_of_before_is_still_read() -> None:
    old = {
        "job_id": "a",
        "state": "SUCCEEDED",
        "image": "i",
        "job_dir": "gs://b/a",
        "metrics": {},
        "model_uri": None,
        "files": [],
        "seconds": {"queued": 0, "preparing": 0, "running": 0, "total": 0},
    }

    assert JobResult.model_validate(old).study is None
