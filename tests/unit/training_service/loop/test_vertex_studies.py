"""The loop with HyperparameterTuningJobs: what counts, what is stopped, what is shown."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from container_engines.memory.engine import Behaviour
from tests.support.fakes.custom_jobs import make_pool
from tests.support.fakes.studies import Tuning
from tests.support.fakes.vertex_tuning_jobs import CONDITIONAL, RATE, make_study, make_tuning_job
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.dialects.vertex_v1.names import trial_uid
from training_api.dialects.vertex_v1.tuning.reader import tuning_job_spec
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.states import JobState
from training_service.api.vertex_v1.tuning_writer import tuning_job
from training_service.model.records import JobRecord
from training_service.studies.output import TuningOutputs
from training_service.use_cases.jobs import JobView

SIZES = {"parameterId": "size", "discreteValueSpec": {"values": [1, 2.5, 4]}}
LAYERS = {"parameterId": "layers", "integerValueSpec": {"minValue": "1", "maxValue": "3"}}
KINDS = {"parameterId": "kind", "categoricalValueSpec": {"values": ["adam"]}}


def submit(tuning: Tuning, *parameters: dict[str, Any], run_seconds: float = 10, **changes: Any) -> None:
    """``changes``: of the job, or, where a StudySpec has the field, of the study."""
    tuning.world.add_image(Behaviour(run_seconds=run_seconds))
    counts = ("maxTrialCount", "parallelTrialCount", "maxFailedTrialCount", "trialJobSpec")
    study = make_study(*parameters, **{name: changes.pop(name) for name in [*changes] if name not in counts})
    job = make_tuning_job(make_pool(imageUri=IMAGE), study=study, **changes)
    tuning.world.store.insert(tuning_job_spec(PROJECT, "us-central1", "123", job), job)


def record(world: World) -> JobRecord:
    return world.store.get(PROJECT, "123")


def shown(world: World) -> dict[str, Any]:
    job = record(world)
    tuning = TuningOutputs(world.trials, world.measurements).of([job])[job.uid]
    return tuning_job(JobView(record=job, tuning=tuning))


def test_a_search_ends_with_all_trials_and_their_measurements(tuning: Tuning) -> None:
    submit(tuning, RATE, LAYERS, SIZES, KINDS)
    tuning.run()

    job = shown(tuning.world)
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert [each["id"] for each in job["trials"]] == ["1", "2", "3", "4"]
    assert {each["state"] for each in job["trials"]} == {"SUCCEEDED"}
    for trial in job["trials"]:
        rate, layers, size, kind = (each["value"] for each in trial["parameters"])
        assert [each["parameterId"] for each in trial["parameters"]] == ["rate", "layers", "size", "kind"]
        assert 0.001 <= rate <= 1
        assert layers in (1, 2, 3)
        assert size in (1.0, 2.5, 4.0)
        assert (type(layers), type(size), kind) == (int, float, "adam")
        assert "infeasibleReason" not in trial
    assert job["trials"][2]["finalMeasurement"] == {
        "stepCount": "1",
        "elapsedDuration": "0s",
        "metrics": [{"metricId": "accuracy", "value": 3.0}],
    }
    assert job["trials"][0]["startTime"] < job["trials"][0]["endTime"]
    assert job["startTime"] == job["trials"][0]["startTime"]


def test_trials_are_told_who_they_are_and_have_their_own_folder(tuning: Tuning) -> None:
    pools = [make_pool(imageUri=IMAGE, args=["--out=$(AIP_MODEL_DIR)"]), make_pool(imageUri=IMAGE)]
    base = {"outputUriPrefix": "gs://bucket/base"}
    submit(tuning, LAYERS, trialJobSpec={"workerPoolSpecs": pools, "baseOutputDirectory": base})
    tuning.world.settle()

    launches = sorted(tuning.world.engine.launches(), key=lambda each: (each.trial_id, each.replica))
    assert [(each.trial_id, str(each.replica)) for each in launches] == [
        ("1", "master 0"),
        ("1", "worker 0"),
        ("2", "master 0"),
        ("2", "worker 0"),
    ]
    for launch in launches:
        own = launch.environment
        assert own["CLOUD_ML_TRIAL_ID"] == launch.trial_id
        assert own["AIP_MODEL_DIR"] == f"gs://bucket/base/{launch.trial_id}/model/"
        assert own["AIP_CHECKPOINT_DIR"] == f"gs://bucket/base/{launch.trial_id}/checkpoints/"
        assert json.loads(own["TF_CONFIG"])["task"]["trial"] == launch.trial_id
        assert json.loads(own["CLUSTER_SPEC"])["task"]["trial"] == launch.trial_id
        assert launch.args[-1] in ("--layers=1", "--layers=2", "--layers=3")
    assert launches[2].args[0] == "--out=gs://bucket/base/2/model/"


def test_trials_have_the_parameters_whose_conditions_hold_until_the_grid_ends(tuning: Tuning) -> None:
    by = KINDS | {"parameterId": "by"}
    submit(tuning, CONDITIONAL, by, algorithm="GRID_SEARCH", maxTrialCount=20, parallelTrialCount=20)
    tuning.world.settle()
    launches = {each.trial_id: each.args for each in tuning.world.engine.launches()}
    tuning.run()

    job = shown(tuning.world)
    found = [{each["parameterId"]: each["value"] for each in trial["parameters"]} for trial in job["trials"]]
    assert found == [
        {"kind": "linear", "by": "adam"},
        {"kind": "deep", "layers": 1, "by": "adam"},
        *(
            {"kind": "deep", "layers": layers, "size": size, "by": "adam"}
            for layers in (2, 3)
            for size in (0.5, 2.0)
        ),
    ]
    assert job["state"] == "JOB_STATE_SUCCEEDED"
    assert len(launches) == 6
    assert launches["1"][-2:] == ("--kind=linear", "--by=adam")
    assert not any("--layers" in arg or "--size" in arg for arg in launches["1"])
    assert launches["6"][-4:] == ("--kind=deep", "--layers=3", "--size=2", "--by=adam")


def test_a_random_search_follows_its_conditions_across_a_restart(tuning: Tuning) -> None:
    submit(tuning, CONDITIONAL, RATE, algorithm="RANDOM_SEARCH", maxTrialCount=12)
    tuning.world.settle()
    tuning.world.restart()
    tuning.run()

    job = shown(tuning.world)
    found = [{each["parameterId"]: each["value"] for each in trial["parameters"]} for trial in job["trials"]]
    assert len(found) == 12
    for values in found:
        is_deep = values["kind"] == "deep"
        assert ("layers" in values) is is_deep
        assert ("size" in values) is (values.get("layers") in (2, 3))
        assert 0.001 <= values["rate"] <= 1
    assert {values["kind"] for values in found} == {"linear", "deep"}


def test_trials_that_wait_or_run_say_so(tuning: Tuning) -> None:
    tuning.world.max_replicas = 1
    tuning.world.restart()
    submit(tuning)
    assert "trials" not in shown(tuning.world)
    tuning.world.settle()

    job = shown(tuning.world)
    assert job["state"] == "JOB_STATE_RUNNING"
    assert [each["state"] for each in job["trials"]] == ["ACTIVE", "REQUESTED"]
    assert "finalMeasurement" not in job["trials"][0]
    assert "startTime" not in job["trials"][1]
    trial = tuning.world.store.find_by_uid(trial_uid(job["trials"][1]["customJob"].rpartition("/")[2]))
    assert trial is not None
    assert trial.trial_id == "2"


def test_a_cancel_ends_the_trials_too(tuning: Tuning) -> None:
    submit(tuning)
    tuning.world.settle()
    tuning.world.store.advance(
        record(tuning.world), JobState.CANCELLING, at=tuning.world.engine.now, message="cancelled"
    )
    tuning.world.settle()
    tuning.world.engine.advance(60)
    tuning.world.settle()

    job = shown(tuning.world)
    assert job["state"] == "JOB_STATE_CANCELLED"
    assert {each["state"] for each in job["trials"]} == {"INFEASIBLE"}


def test_a_trial_that_fails_is_infeasible_and_says_why(tuning: Tuning) -> None:
    submit(tuning, maxTrialCount=2, parallelTrialCount=1)
    tuning.world.settle()
    (first,) = [job.uid for job in tuning.world.store.list_active() if job.trial]
    tuning.world.engine.end(first, ReplicaId(role=ReplicaRole.MASTER), 3)
    tuning.run()

    failed, good = shown(tuning.world)["trials"]
    assert (failed["state"], good["state"]) == ("INFEASIBLE", "SUCCEEDED")
    assert failed["infeasibleReason"].startswith(
        "The replica workerpool0-0 exited with a non-zero status of 3. Termination reason: Error."
    )
    assert "finalMeasurement" not in failed
    assert shown(tuning.world)["state"] == "JOB_STATE_SUCCEEDED"


def test_too_many_failures_fail_the_job_in_the_words_of_the_dialect(tuning: Tuning) -> None:
    tuning.score = lambda number, values: None
    submit(tuning, maxFailedTrialCount=1, parallelTrialCount=1)
    tuning.run()

    job = shown(tuning.world)
    assert (job["state"], job["error"]["code"]) == ("JOB_STATE_FAILED", 3)
    assert job["error"]["message"].startswith(
        "1 trial has failed, and maxFailedTrialCount is 1. "
        "Trial 1: The trial ended without a value of the metric 'accuracy': it reported nothing."
    )
    assert job["trials"][0]["infeasibleReason"] in job["error"]["message"]


@pytest.mark.parametrize(
    ("selection", "value", "step"), [("LAST_MEASUREMENT", 0.25, "3"), ("BEST_MEASUREMENT", 0.75, "2")]
)
def test_the_last_or_the_best_measurement_counts(
    tuning: Tuning, selection: str, value: float, step: str
) -> None:
    tuning.curve = lambda number, place: [0.5, 0.75, 0.25][min(place, 2)] if place < 3 else 0.25
    submit(tuning, maxTrialCount=1, run_seconds=2.5, measurementSelectionType=selection)
    tuning.run()

    (trial,) = shown(tuning.world)["trials"]
    assert trial["finalMeasurement"]["metrics"] == [{"metricId": "accuracy", "value": value}]
    assert trial["finalMeasurement"]["stepCount"] == step


@pytest.mark.parametrize(
    ("selection", "state"), [("LAST_MEASUREMENT", "INFEASIBLE"), ("BEST_MEASUREMENT", "SUCCEEDED")]
)
def test_a_best_measurement_outlives_a_trainer_that_diverges(
    tuning: Tuning, selection: str, state: str
) -> None:
    tuning.curve = lambda number, place: 0.5 if place == 0 else math.nan
    submit(tuning, maxTrialCount=1, measurementSelectionType=selection)
    tuning.run()

    (trial,) = shown(tuning.world)["trials"]
    assert trial["state"] == state


def test_a_trainer_without_a_finite_value_is_told_so(tuning: Tuning) -> None:
    tuning.curve = lambda number, place: math.inf
    submit(tuning, maxTrialCount=1, measurementSelectionType="BEST_MEASUREMENT")
    tuning.run()

    (trial,) = shown(tuning.world)["trials"]
    assert trial["infeasibleReason"] == (
        "No value is finite, and the last value of the metric 'accuracy' is inf; it must be a finite number."
    )


def test_the_median_rule_stops_a_trial_which_then_counts(tuning: Tuning) -> None:
    """Five trials average 1 to 5, their median is 3; the sixth, with 2.5, is stopped."""
    tuning.curve = lambda number, place: float(number) if number < 6 else 2.5
    submit(tuning, maxTrialCount=6, parallelTrialCount=1, medianAutomatedStoppingSpec={})
    tuning.run()

    *whole, stopped = tuning.world.trials.summaries([record(tuning.world).uid])
    assert [trial.stopped for trial in whole] == [""] * 5
    assert stopped.stopped == (
        "its best value by step 3, 2.5, is worse than 3, the median of the averages of 5 completed trials by then"
    )
    last = shown(tuning.world)["trials"][-1]
    assert (last["state"], last["finalMeasurement"]["stepCount"]) == ("SUCCEEDED", "3")


def test_a_trial_of_a_study_that_stops_none_runs_to_its_end(tuning: Tuning) -> None:
    tuning.curve = lambda number, place: float(number) if number < 6 else 2.5
    submit(tuning, maxTrialCount=6, parallelTrialCount=1)
    tuning.run()

    assert not any(trial.stopped for trial in tuning.world.trials.summaries([record(tuning.world).uid]))


@pytest.mark.extended
@pytest.mark.parametrize(
    ("ending", "count"),
    [
        ({}, 10),
        ({"maxNumTrials": 3}, 3),
        ({"maxNumTrialsNoProgress": 2}, 4),
        ({"maxNumTrialsNoProgress": 2, "minNumTrials": 6}, 6),
    ],
)
def test_a_study_ends_when_its_trials_get_no_better(
    tuning: Tuning, ending: dict[str, int], count: int
) -> None:
    """The second trial is the best; with it the third and the fourth are no better."""
    tuning.score = lambda number, values: 9.0 if number == 2 else 1.0
    submit(tuning, maxTrialCount=10, parallelTrialCount=1, studyStoppingConfig=ending)
    tuning.run()

    job = shown(tuning.world)
    assert (job["state"], len(job["trials"])) == ("JOB_STATE_SUCCEEDED", count)


def test_a_timeout_ends_each_trial_and_not_the_search(tuning: Tuning) -> None:
    pools = [make_pool(imageUri=IMAGE)]
    submit(
        tuning,
        maxTrialCount=2,
        parallelTrialCount=1,
        run_seconds=50,
        trialJobSpec={"workerPoolSpecs": pools, "scheduling": {"timeout": "20s"}},
    )
    tuning.run()

    job = shown(tuning.world)
    assert [each["state"] for each in job["trials"]] == ["INFEASIBLE", "INFEASIBLE"]
    assert "scheduling.timeout (20s)" in job["trials"][0]["infeasibleReason"]
    assert job["state"] == "JOB_STATE_FAILED"
