"""An earlier job of the same content takes the place of a new one, if that is asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from container_training.operators.results import CollectTrainingResultsOperator
from container_training.pipeline import training_pipeline
from container_training.sensors.training import TrainingJobSensor
from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.fake_service import EPOCH, FakeService, error
from tests.unit.container_training.operators.conftest import IMAGE, finish, make_operator, new_run
from training_api.states import JobState

pytestmark = pytest.mark.usefixtures("data")

PACKAGES = {
    "image": None,
    "package_uris": ["gs://bucket/p/trainer-0.0.0.tar.gz"],
    "python_module": "trainer.task",
    "runtime_version": "2.11",
    "python_version": "3.7",
}


def test_the_same_content_is_not_trained_again(
    service: FakeService, context: Any, earlier: str, log_lines: Sequence[str]
) -> None:
    run, operator = new_run(context), make_operator()

    assert operator.execute(run) == earlier

    assert service.count("POST", "/jobs") == 1
    # The task's buttons open the earlier job.
    assert operator.report is not None
    assert (operator.report.job_id, operator.report.job_dir) == (earlier, f"gs://bucket/jobs/{earlier}")
    assert run["ti"].pushed["reused"] is True
    assert run["ti"].pushed["job"]["jobId"] == earlier
    assert any(
        line.startswith(f"job {earlier} of 2026-11-20 09:01 UTC has the same content: not trained again")
        for line in log_lines
    )


def test_one_filtered_list_finds_it(service: FakeService, context: Any, earlier: str) -> None:
    service.filters.clear()

    make_operator().execute(new_run(context))

    (filter_,) = service.filters
    assert re.fullmatch(r"labels\.airflow-content=[0-9a-f]{32} AND state=SUCCEEDED", filter_)


def test_it_is_off_by_default(service: FakeService, bucket: FakeBucket, context: Any) -> None:
    for run in (new_run(context), new_run(context)):
        finish(service, bucket, make_operator(reuse_results=False).execute(run))
        assert run["ti"].pushed["reused"] is False

    assert len(service.jobs) == 2
    assert service.filters == []


def test_a_template_may_switch_it_off_and_the_job_can_be_found_all_the_same(
    service: FakeService, bucket: FakeBucket, context: Any, earlier: str
) -> None:
    again = make_operator(reuse_results="False").execute(new_run(context))
    finish(service, bucket, again)

    assert again != earlier
    assert make_operator(reuse_results="True").execute(new_run(context)) in (earlier, again)
    assert len(service.jobs) == 2


def test_neither_asked_for_nor_declared_nothing_is_read_or_labelled(
    service: FakeService, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "container_training.work.object_store.ObjectStore.generations",
        lambda *_: pytest.fail("the object store was asked"),
    )

    make_operator(reuse_results=False, data_uris=[]).execute(context)

    (job,) = service.jobs.values()
    assert "airflow-content" not in (job.labels or {})


@pytest.mark.parametrize("change", ["written again", "added", "removed"])
def test_changed_data_are_trained(
    service: FakeService, bucket: FakeBucket, context: Any, earlier: str, change: str
) -> None:
    match change:
        case "written again":
            bucket.blob("data/a.csv").upload_from_string(b"1", "text/csv")
        case "added":
            bucket.objects["data/c.csv"] = b"3"
        case "removed":
            del bucket.objects["data/b.csv"]

    assert make_operator().execute(new_run(context)) != earlier


def test_results_in_a_bucket_of_another_project_are_not_taken(
    bucket: FakeBucket, context: Any, earlier: str
) -> None:
    bucket.project = "another"

    assert make_operator().execute(new_run(context)) != earlier


def test_an_object_beside_the_folder_is_none_of_its_data(
    bucket: FakeBucket, context: Any, earlier: str
) -> None:
    bucket.blob("data-2.csv").upload_from_string(b"4", "text/csv")

    assert make_operator().execute(new_run(context)) == earlier


def test_the_generations_are_recorded_and_a_retry_keeps_those_of_its_job(
    service: FakeService, bucket: FakeBucket, context: Any
) -> None:
    run = new_run(context)
    make_operator().execute(run)
    first = run["ti"].pushed.pop("data")
    bucket.blob("data/a.csv").upload_from_string(b"1", "text/csv")

    make_operator().execute(run)

    assert [(value["uri"], value["generations"]) for value in first] == [
        ("gs://bucket/data", {"data/a.csv": 1, "data/b.csv": 1})
    ]
    assert run["ti"].pushed["data"] == first
    assert len(service.jobs) == 1


@pytest.mark.parametrize("uri", ["gs://bucket/absent", "gs://gone/data", "gs://bucket/dat"])
def test_data_that_are_not_there_end_the_task_before_money_is_spent(
    service: FakeService, context: Any, uri: str
) -> None:
    with pytest.raises(AirflowFailException, match=f"DataMissing: there is no object at '{uri}'"):
        make_operator(data_uris=uri).execute(context)

    assert service.jobs == {}


def test_an_address_elsewhere_is_refused(service: FakeService, context: Any) -> None:
    with pytest.raises(
        AirflowFailException,
        match="DataMissing: data_uris must be addresses in Cloud Storage: expected gs://",
    ):
        make_operator(data_uris=["s3://bucket/data"]).execute(context)


@pytest.mark.parametrize("gone", ["metrics.json", "model.joblib"])
def test_results_that_are_gone_are_trained_again_and_the_log_says_why(
    service: FakeService, bucket: FakeBucket, context: Any, earlier: str, gone: str, log_lines: Sequence[str]
) -> None:
    del bucket.objects[f"jobs/{earlier}/{gone}"]

    assert make_operator().execute(new_run(context)) != earlier

    assert any(
        line.startswith(
            f"job {earlier} has the same content, but its results cannot be taken: gs://bucket/jobs/"
        )
        and f"{gone} is not there" in line
        for line in log_lines
    )


def test_what_must_be_there_can_be_named(bucket: FakeBucket, context: Any, earlier: str) -> None:
    del bucket.objects[f"jobs/{earlier}/model.joblib"]
    bucket.objects[f"jobs/{earlier}/saved_model/saved_model.pb"] = b"x"

    assert make_operator(result_files=["saved_model/"]).execute(new_run(context)) == earlier


def test_of_several_jobs_the_newest_with_results_is_taken(
    service: FakeService, bucket: FakeBucket, context: Any, earlier: str
) -> None:
    newer = make_operator(reuse_results=False).execute(new_run(context))
    finish(service, bucket, newer)
    service.jobs[newer] = service.jobs[newer].model_copy(update={"create_time": EPOCH + timedelta(hours=1)})

    assert make_operator().execute(new_run(context)) == newer

    del bucket.objects[f"jobs/{newer}/model.joblib"]
    assert make_operator().execute(new_run(context)) == earlier


@pytest.mark.parametrize(
    "change",
    [
        {"args": ["--epochs", 4]},
        {"image": IMAGE.replace("a" * 64, "b" * 64)},
        {"master_type": "n1-standard-8"},
        {"data_uris": ["gs://bucket/data/a.csv"]},
    ],
    ids=lambda change: "-".join(change),
)
def test_other_content_is_trained(context: Any, earlier: str, change: dict[str, Any]) -> None:
    assert make_operator(**change).execute(new_run(context)) != earlier


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.SUCCEEDED])
def test_only_a_job_that_succeeded_is_taken(
    service: FakeService, context: Any, earlier: str, state: JobState
) -> None:
    service.move(earlier, state)

    assert make_operator().execute(new_run(context)) != earlier


def test_a_label_that_was_moved_to_another_job_deceives_nobody(
    service: FakeService, bucket: FakeBucket, context: Any, earlier: str
) -> None:
    other = make_operator(args=["--epochs", 9], reuse_results=False).execute(new_run(context))
    finish(service, bucket, other)
    service.jobs[other] = service.jobs[other].model_copy(update={"labels": service.jobs[earlier].labels})
    del service.jobs[earlier]

    assert make_operator().execute(new_run(context)) not in (earlier, other)


def test_an_image_by_tag_is_trained_and_the_log_says_why(
    service: FakeService, bucket: FakeBucket, context: Any, log_lines: Sequence[str]
) -> None:
    for run in (new_run(context), new_run(context)):
        finish(service, bucket, make_operator(image="127.0.0.1:5000/demo/digits:1").execute(run))

    assert len(service.jobs) == 2
    assert any("a tag may name another image tomorrow: the job is trained" in line for line in log_lines)


def test_packages_count_by_their_generations(service: FakeService, bucket: FakeBucket, context: Any) -> None:
    bucket.objects["p/trainer-0.0.0.tar.gz"] = b"package"
    first = make_operator(**PACKAGES).execute(new_run(context))
    finish(service, bucket, first)

    assert make_operator(**PACKAGES).execute(new_run(context)) == first

    bucket.blob("p/trainer-0.0.0.tar.gz").upload_from_string(b"other", "application/x-tar")
    assert make_operator(**PACKAGES).execute(new_run(context)) != first


SEARCH = {
    "goal": "MAXIMIZE",
    "hyperparameterMetricTag": "accuracy",
    "maxTrials": 2,
    "params": [{"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}],
}


def test_of_a_tuning_job_the_results_of_its_best_trial_must_be_there(
    service: FakeService, bucket: FakeBucket, context: Any, log_lines: Sequence[str]
) -> None:
    fields: dict[str, Any] = {"hyperparameters": SEARCH, "result_files": ["model.joblib"]}
    tuned = make_operator(**fields).execute(new_run(context))
    finish(service, bucket, tuned, "1/model.joblib", "2/model.joblib")
    trials = [
        {
            "trialId": str(number),
            "state": "SUCCEEDED",
            "hyperparameters": {"x": "0.5"},
            "finalMetric": {"objectiveValue": accuracy, "trainingStep": "1"},
        }
        for number, accuracy in ((1, 0.9), (2, 0.8))
    ]
    wire = service.jobs[tuned].to_wire() | {"trainingOutput": {"trials": trials}}
    service.add(type(service.jobs[tuned]).model_validate(wire))

    assert make_operator(**fields).execute(new_run(context)) == tuned

    del bucket.objects[f"jobs/{tuned}/1/model.joblib"]
    assert make_operator(**fields).execute(new_run(context)) != tuned
    assert any(f"jobs/{tuned}/1/model.joblib is not there" in line for line in log_lines)


def test_without_the_right_to_list_jobs_it_trains(
    service: FakeService, context: Any, earlier: str, log_lines: Sequence[str]
) -> None:
    service.faults = [error(403, "PERMISSION_DENIED", "ml.jobs.list is missing")]

    assert make_operator().execute(new_run(context)) != earlier
    assert any("earlier jobs cannot be looked for" in line for line in log_lines)


def test_a_service_that_is_busy_is_asked_again(service: FakeService, context: Any, earlier: str) -> None:
    service.faults = [error(503, "UNAVAILABLE", "starting"), error(429, "X", "busy")]

    assert make_operator().execute(new_run(context)) == earlier


def test_the_wait_for_an_earlier_job_is_over_at_once_and_its_cost_is_no_limit(
    service: FakeService, context: Any, earlier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    price_everything(monkeypatch)
    sensor = TrainingJobSensor(task_id="wait", job_id=earlier, max_cost=0.5)

    assert sensor.execute(new_run(context)) == "SUCCEEDED"
    assert not any(path.endswith(":cancel") for _, path in service.requests)


def price_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_TRAINING_DEFAULT",
        '{"conn_type": "container_training", "host": "training.test", "port": 8470, "extra": {"project": "demo", '
        '"prices": {"n1-standard-4": 0.01}, "currency": "EUR"}}',
    )


@pytest.mark.parametrize(("reused", "total"), [("True", 0.0), (False, 0.9)])
def test_the_result_says_whose_it_is_and_costs_nothing(
    service: FakeService,
    context: Any,
    earlier: str,
    monkeypatch: pytest.MonkeyPatch,
    reused: bool | str,
    total: float,
) -> None:
    price_everything(monkeypatch)
    collect = CollectTrainingResultsOperator(task_id="collect", job_id=earlier, reused=reused)

    result = collect.execute(new_run(context))

    assert result["job_id"] == earlier
    assert result["job_url"] == f"http://training.test:8470/v1/projects/demo/jobs/{earlier}"
    assert (result["reused"], result["cost"]["total"]) == (bool(reused), pytest.approx(total))
    assert result["seconds"]["running"] == 90.0
    assert result["model_uri"] == f"gs://bucket/jobs/{earlier}/model.joblib"


def test_the_chain_hands_on_what_is_needed() -> None:
    with DAG("chain", schedule=None):
        chain = training_pipeline(
            context_dir="/trainer",
            image="HOST/demo/mine",
            reuse_results="{{ params.reuse }}",
            data_uris=["gs://bucket/data"],
            model_file="model.json",
        )

    assert chain.submit.reuse_results == "{{ params.reuse }}"
    assert chain.submit.data_uris == ["gs://bucket/data"]
    assert chain.submit.result_files == ["metrics.json", "model.json"]
    assert chain.collect.reused.key == "reused"  # type: ignore[union-attr]


def test_the_chain_of_a_search_wants_no_metrics_file() -> None:
    with DAG("chain", schedule=None):
        chain = training_pipeline(
            context_dir="/trainer", image="HOST/demo/mine", hyperparameters=SEARCH, reuse_results=True
        )

    assert chain.submit.result_files == ["model.joblib"]
