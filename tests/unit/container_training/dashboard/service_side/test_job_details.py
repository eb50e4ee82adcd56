"""One job as its page shows it."""

from __future__ import annotations

from typing import Any

import pytest

from container_training.dashboard.service_side.job_details import (
    images_view,
    person_view,
    results_folder,
    trials_view,
)
from tests.support.fakes.job_rows import NOON, after, make_row
from training_api.dialects.ml_v1.cost import PriceList
from training_api.dialects.ml_v1.job_rows import JobDetail
from training_api.fleet.wire import Span, SpanKind

DIGEST = f"sha256:{'a' * 64}"
FREE = PriceList(source="extra.prices", per_second={})


def make_job(**changes: Any) -> JobDetail:
    pool = {
        "name": "master",
        "count": 1,
        "machineType": "n1-standard-4",
        "image": "127.0.0.1:5000/p/trainer:1",
    }
    row = make_row().to_wire()
    return JobDetail.model_validate(
        {"job": row, "name": "projects/p/jobs/train_1", "pools": [pool], **changes}
    )


def pull(name: str, pinned: str = "") -> Span:
    return Span(kind=SpanKind.PULL, name=name, pinned=pinned, start_time=NOON, end_time=after(3))


def make_study() -> JobDetail:
    parameters = [{"name": "lr", "kind": "DOUBLE", "low": 0.1, "high": 1}]
    study = {"goal": "MAXIMIZE", "metricTag": "accuracy", "maxTrials": 3, "parameters": parameters}
    trials = [
        {
            "trialId": "2",
            "state": "SUCCEEDED",
            "parameters": {"lr": "0.1"},
            "objective": 0.9,
            "step": 7,
            "startTime": "2026-11-20T12:00:00Z",
            "endTime": "2026-11-20T12:00:20Z",
        },
        {
            "trialId": "10",
            "state": "RUNNING",
            "parameters": {"lr": "0.5"},
            "startTime": "2026-11-20T12:00:10Z",
        },
    ]
    return make_job(study=study, trials=trials, outputDir="gs://b/jobs/train_1/")


def test_the_image_has_the_digest_that_was_run() -> None:
    run = Span(kind=SpanKind.RUN, name="master-replica-0", start_time=after(4))
    of_job = pull("127.0.0.1:5000/p/trainer:1", f"127.0.0.1:5000/p/trainer@{DIGEST}")

    assert images_view(make_job(), [of_job, run]) == [
        {
            "pool": "master",
            "uri": "127.0.0.1:5000/p/trainer:1",
            "pinned": f"127.0.0.1:5000/p/trainer@{DIGEST}",
        }
    ]


def test_an_image_that_was_not_pulled_yet_has_no_digest() -> None:
    assert images_view(make_job(), [])[0]["pinned"] is None


def test_the_digest_of_a_pull_from_before_it_was_stored_is_not_known() -> None:
    assert images_view(make_job(), [pull("127.0.0.1:5000/p/trainer:1")])[0]["pinned"] is None


def test_an_image_that_was_asked_for_by_digest_has_it_at_once() -> None:
    uri = f"127.0.0.1:5000/p/trainer@{DIGEST}"
    pool = {"name": "workerpool0", "count": 1, "machineType": "n1-standard-4", "image": uri}

    assert images_view(make_job(pools=[pool]), []) == [{"pool": "workerpool0", "uri": uri, "pinned": uri}]


def test_trials_are_a_table_with_the_best_marked_and_what_they_cost() -> None:
    prices = PriceList(source="extra.prices", per_second={"n1-standard-4": 0.5}, currency="EUR")

    view = trials_view(make_study(), after(30), prices)

    assert view is not None
    assert [trial["id"] for trial in view["trials"]] == ["2", "10"]
    assert view["best"] == "2"
    assert [trial["cost"] for trial in view["trials"]] == [10.0, 10.0]
    assert view["parameters"] == ["lr"]


def test_without_prices_trials_have_no_cost_and_other_jobs_no_trials() -> None:
    view = trials_view(make_study(), after(30), FREE)

    assert view is not None
    assert view["currency"] is None
    assert trials_view(make_job(), after(30), FREE) is None


def test_results_of_a_study_are_those_of_its_best_trial() -> None:
    assert results_folder(make_study(), after(30)) == "gs://b/jobs/train_1/2"
    assert results_folder(make_job(outputDir="gs://b/x/"), after(30)) == "gs://b/x"
    assert results_folder(make_job(), after(30)) == ""


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (None, None),
        ({"type": "manual", "user": "ada"}, "by hand, ada"),
        ({"type": "scheduled", "user": ""}, "by its schedule"),
        ({"type": "asset_triggered", "user": ""}, "by new data"),
    ],
)
def test_who_had_the_run_made(run: dict[str, str] | None, text: str | None) -> None:
    assert person_view(run) == text
