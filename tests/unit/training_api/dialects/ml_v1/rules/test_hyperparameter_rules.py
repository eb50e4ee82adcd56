"""The rules of a tuning job's search: one bad request for each, by its path and its words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training_api.dialects.ml_v1.reader import accepted_job_spec, job_spec_from_wire
from training_api.dialects.ml_v1.resources import HyperparameterSpec, Job
from training_api.dialects.ml_v1.search import study_from_wire
from training_api.errors import FieldViolation, InvalidJobSpec
from training_api.job.tuning.search_terms import Goal, SearchAlgorithm
from training_api.job.tuning.study_spec import DEFAULT_METRIC_TAG, StudySpec

RATE = {"parameterName": "rate", "type": "DOUBLE", "minValue": 1e-4, "maxValue": 0.1}
UNITS = {"parameterName": "units", "type": "INTEGER", "minValue": 16, "maxValue": 256}
KERNEL = {"parameterName": "kernel", "type": "CATEGORICAL", "categoricalValues": ["rbf", "linear"]}
DEPTH = {"parameterName": "depth", "type": "DISCRETE", "discreteValues": [1.5, 2.5, 4.0]}
NAME_RULE = (
    "must start with a letter or underscore, hold only letters, digits and '_', '.', '-', and be at most 128 long, "
    "since trials get it as the argument --NAME; got "
)
JOB_ID_RULE = (
    "must be a job's id, which must start with a letter, hold only letters, digits and underscores, "
    "and be at most 128 long; got "
)


def make_job(*params: dict[str, Any], **search: Any) -> Job:
    """Return a good tuning job, changed; ``params`` in place of the four good ones."""
    hyperparameters = {"params": list(params) or [RATE, UNITS, KERNEL, DEPTH], **search}
    return Job.model_validate(
        {
            "jobId": "tune_1",
            "trainingInput": {
                "masterConfig": {"imageUri": "gcr.io/demo/train:1"},
                "hyperparameters": hyperparameters,
            },
        }
    )


def violations_of(job: Job) -> list[tuple[str, str]]:
    with pytest.raises(InvalidJobSpec) as caught:
        job_spec_from_wire("demo", job)
    return [
        (violation.field.removeprefix("trainingInput.hyperparameters."), violation.description)
        for violation in caught.value.violations
    ]


def study_of(job: Job) -> StudySpec:
    study = job_spec_from_wire("demo", job).study
    assert study is not None
    return study


def asked_of(job: Job) -> StudySpec:
    assert job.training_input is not None
    assert job.training_input.hyperparameters is not None
    return study_from_wire(job.training_input.hyperparameters)


# --- what is good


def test_a_search_gets_the_defaults_of_the_api() -> None:
    study = study_of(make_job())

    assert study.goal is Goal.MAXIMIZE
    assert study.metric_tag == DEFAULT_METRIC_TAG
    assert (study.max_trials, study.max_parallel_trials, study.max_failed_trials) == (1, 1, 0)
    assert study.algorithm is SearchAlgorithm.BAYESIAN
    assert not study.stops_early
    assert study.resume_job_id == ""
    assert [param.name for param in study.parameters] == [
        "rate",
        "units",
        "kernel",
        "depth",
    ]


def test_a_job_without_a_search_trains_once() -> None:
    job = Job.model_validate(
        {"jobId": "a", "trainingInput": {"masterConfig": {"imageUri": "gcr.io/demo/t:1"}}}
    )

    assert job_spec_from_wire("demo", job).study is None


@pytest.mark.parametrize(
    "search",
    [
        {"maxTrials": 0, "maxParallelTrials": 0, "maxFailedTrials": 0},
        {"maxTrials": 1000, "maxParallelTrials": 1000},
        {"maxTrials": 2, "maxParallelTrials": 3, "maxFailedTrials": 4},
        {"goal": "GOAL_TYPE_UNSPECIFIED", "hyperparameterMetricTag": "", "resumePreviousJobId": ""},
        {"goal": "MINIMIZE", "hyperparameterMetricTag": "eval/loss 1", "resumePreviousJobId": "tune_0"},
        {"algorithm": "RANDOM_SEARCH", "enableTrialEarlyStopping": True},
    ],
)
def test_a_good_search_is_taken(search: dict[str, Any]) -> None:
    assert study_of(make_job(**search)) == asked_of(make_job(**search))


@pytest.mark.parametrize(
    "param",
    [
        RATE | {"minValue": 0.1},  # fixed
        RATE | {"minValue": -1, "maxValue": 0, "scaleType": "UNIT_LINEAR_SCALE"},
        RATE | {"scaleType": "UNIT_REVERSE_LOG_SCALE", "categoricalValues": [], "discreteValues": []},
        UNITS | {"minValue": -(2**53), "maxValue": 2**53},
        UNITS | {"scaleType": "UNIT_LOG_SCALE", "parameterName": "_hidden-units.1"},
        KERNEL | {"minValue": 0, "maxValue": 0, "scaleType": "NONE"},  # 0: unset in proto3
        KERNEL | {"categoricalValues": ["", "a b", "--x"]},
        DEPTH | {"minValue": 7, "maxValue": -7},  # discovery: ignored
        DEPTH | {"discreteValues": [-1], "scaleType": "NONE"},
        DEPTH | {"discreteValues": list(range(1, 1001)), "scaleType": "UNIT_LOG_SCALE"},
    ],
)
def test_a_good_parameter_is_taken(param: dict[str, Any]) -> None:
    assert study_of(make_job(param)) == asked_of(make_job(param))


def test_a_grid_may_have_all_types_but_double() -> None:
    assert study_of(make_job(UNITS, KERNEL, DEPTH, algorithm="GRID_SEARCH")).algorithm is SearchAlgorithm.GRID


# --- what is not


@pytest.mark.parametrize(
    ("search", "path", "why"),
    [
        ({"params": []}, "params", "is required: at least one parameter to search"),
        ({"params": None}, "params", "is required: at least one parameter to search"),
        ({"params": [RATE] * 65}, "params", "must be at most 64 parameters; got 65"),
        ({"maxTrials": -1}, "maxTrials", "must not be negative (0 is the default); got -1"),
        ({"maxTrials": 1001}, "maxTrials", "must be at most 1000; got 1001"),
        ({"maxParallelTrials": -2}, "maxParallelTrials", "must not be negative (0 is the default); got -2"),
        ({"maxFailedTrials": -3}, "maxFailedTrials", "must not be negative (0 is the default); got -3"),
        ({"hyperparameterMetricTag": "a\nb"}, "hyperparameterMetricTag",
         "must be at most 256 printable characters; got 'a\\nb'"),
        ({"hyperparameterMetricTag": "a" * 257}, "hyperparameterMetricTag",
         f"must be at most 256 printable characters; got {'a' * 257!r}"),
        ({"resumePreviousJobId": "0-a"}, "resumePreviousJobId", f"{JOB_ID_RULE}'0-a'"),
        ({"resumePreviousJobId": "tune_1"}, "resumePreviousJobId",
         "must name an earlier job, not the job itself; got 'tune_1'"),
        ({"algorithm": "GRID_SEARCH"}, "params[0].type",
         "must be INTEGER, CATEGORICAL or DISCRETE with GRID_SEARCH; list the values as DISCRETE; got DOUBLE"),
    ],
)  # fmt: skip
def test_a_bad_search_is_refused_by_its_field(search: dict[str, Any], path: str, why: str) -> None:
    assert violations_of(make_job(**search)) == [(path, why)]


@pytest.mark.parametrize(
    ("param", "field", "why"),
    [
        ({"type": "DOUBLE", "minValue": 0, "maxValue": 1}, "parameterName",
         "is required: the trainer's argument --NAME"),
        (RATE | {"parameterName": ""}, "parameterName", "is required: the trainer's argument --NAME"),
        (RATE | {"parameterName": "-rate"}, "parameterName", f"{NAME_RULE}'-rate'"),
        (RATE | {"parameterName": "a=b"}, "parameterName", f"{NAME_RULE}'a=b'"),
        (RATE | {"parameterName": "a" * 129}, "parameterName", f"{NAME_RULE}{'a' * 129!r}"),
        (RATE | {"parameterName": "job-dir"}, "parameterName",
         "must not be the job directory's, which the service passes itself; got 'job-dir'"),
        (RATE | {"parameterName": "job_dir"}, "parameterName",
         "must not be the job directory's, which the service passes itself; got 'job_dir'"),
        (RATE | {"parameterName": "first"}, "parameterName",
         "must be unique, params[0] has it already; got 'first'"),
        ({"parameterName": "rate"}, "type", "is required: DOUBLE, INTEGER, CATEGORICAL or DISCRETE"),
        (RATE | {"type": "PARAMETER_TYPE_UNSPECIFIED"}, "type",
         "is required: DOUBLE, INTEGER, CATEGORICAL or DISCRETE"),
        (RATE | {"minValue": None}, "minValue", "is required for DOUBLE; write 0 where it is 0"),
        (UNITS | {"maxValue": None}, "maxValue", "is required for INTEGER; write 0 where it is 0"),
        (RATE | {"minValue": "-Infinity"}, "minValue", "must be finite; got -inf"),
        (RATE | {"maxValue": "NaN"}, "maxValue", "must be finite; got nan"),
        (UNITS | {"maxValue": 16.5}, "maxValue", "must be a whole number for INTEGER; got 16.5"),
        (UNITS | {"maxValue": 2**54}, "maxValue",
         f"must be from -2^53 to 2^53 for INTEGER; got {float(2**54)}"),
        (RATE | {"maxValue": 1e-5}, "maxValue", "must be at least minValue, 0.0001; got 1e-05"),
        (RATE | {"minValue": -1e308, "maxValue": 1e308}, "maxValue",
         "must be nearer to minValue, -1e+308: no double holds the width; got 1e+308"),
        (RATE | {"minValue": 0, "scaleType": "UNIT_LOG_SCALE"}, "minValue",
         "must be more than 0 with UNIT_LOG_SCALE; got 0.0"),
        (UNITS | {"minValue": -1, "scaleType": "UNIT_REVERSE_LOG_SCALE"}, "minValue",
         "must be more than 0 with UNIT_REVERSE_LOG_SCALE; got -1.0"),
        (RATE | {"categoricalValues": ["a"]}, "categoricalValues",
         "can only be set for CATEGORICAL, not DOUBLE"),
        (DEPTH | {"categoricalValues": ["a"]}, "categoricalValues",
         "can only be set for CATEGORICAL, not DISCRETE"),
        (UNITS | {"discreteValues": [1]}, "discreteValues", "can only be set for DISCRETE, not INTEGER"),
        (KERNEL | {"discreteValues": [1]}, "discreteValues", "can only be set for DISCRETE, not CATEGORICAL"),
        (KERNEL | {"minValue": 1}, "minValue", "must not be set for CATEGORICAL; got 1.0"),
        (KERNEL | {"maxValue": 2}, "maxValue", "must not be set for CATEGORICAL; got 2.0"),
        (KERNEL | {"scaleType": "UNIT_LINEAR_SCALE"}, "scaleType",
         "must not be set for CATEGORICAL; got UNIT_LINEAR_SCALE"),
        (KERNEL | {"categoricalValues": []}, "categoricalValues",
         "is required for CATEGORICAL: at least one value"),
        (KERNEL | {"categoricalValues": ["a", "b", "a"]}, "categoricalValues[2]",
         "must be unique; got 'a' again"),
        (KERNEL | {"categoricalValues": ["a\0"]}, "categoricalValues[0]",
         "must not hold a NUL, which no argument can; got 'a\\x00'"),
        (DEPTH | {"discreteValues": None}, "discreteValues", "is required for DISCRETE: at least one value"),
        (DEPTH | {"discreteValues": list(range(1001))}, "discreteValues",
         "must be at most 1000 values; got 1001"),
        (DEPTH | {"discreteValues": [1, "Infinity"]}, "discreteValues[1]", "must be finite; got inf"),
        (DEPTH | {"discreteValues": [1, 2, 2]}, "discreteValues[2]",
         "must be more than the value before it, 2.0: the values increase strictly; got 2.0"),
        (DEPTH | {"discreteValues": [2, 1]}, "discreteValues[1]",
         "must be more than the value before it, 2.0: the values increase strictly; got 1.0"),
        (DEPTH | {"discreteValues": [0, 1], "scaleType": "UNIT_LOG_SCALE"}, "discreteValues",
         "must all be more than 0 with UNIT_LOG_SCALE; got 0.0"),
        (DEPTH | {"discreteValues": [-1e308, 1e308]}, "discreteValues",
         "must lie nearer together: no double holds their width"),
    ],
)  # fmt: skip
def test_a_bad_parameter_is_refused_by_its_field(param: dict[str, Any], field: str, why: str) -> None:
    job = make_job(RATE | {"parameterName": "first"}, param)

    assert violations_of(job) == [(f"params[1].{field}", why)]


def test_every_broken_rule_is_told_at_once() -> None:
    job = make_job(RATE | {"minValue": None}, KERNEL | {"categoricalValues": []}, UNITS, UNITS, maxTrials=-1)

    assert [path for path, _ in violations_of(job)] == [
        "maxTrials",
        "params[3].parameterName",
        "params[0].minValue",
        "params[1].categoricalValues",
    ]


def test_a_search_that_was_accepted_under_other_rules_is_still_read() -> None:
    study = accepted_job_spec("demo", make_job(RATE, RATE, maxTrials=5000)).study

    assert study is not None
    assert study.max_trials == 5000


# --- whatever is sent

_doubles = st.none() | st.sampled_from([-1.0, 0.0, 1.0, 16.0, 2.5]) | st.floats()
_params = st.fixed_dictionaries(
    {},
    optional={
        "parameterName": st.sampled_from(["rate", "units", "job-dir", ""]) | st.text(max_size=4),
        "type": st.sampled_from(["DOUBLE", "INTEGER", "CATEGORICAL", "DISCRETE"]),
        "minValue": _doubles,
        "maxValue": _doubles,
        "scaleType": st.sampled_from([None, "NONE", "UNIT_LOG_SCALE", "UNIT_LINEAR_SCALE"]),
        "categoricalValues": st.lists(st.text(max_size=2), max_size=3),
        "discreteValues": st.lists(_doubles.filter(lambda value: value is not None), max_size=3),
    },
)
_good_params = st.sampled_from([RATE, UNITS, KERNEL, DEPTH])
_counts = st.none() | st.integers(-2, 1100)
_searches = st.fixed_dictionaries(
    {"params": st.lists(_good_params | _params, max_size=4)},
    optional={
        "algorithm": st.sampled_from([None, "GRID_SEARCH", "RANDOM_SEARCH"]),
        "goal": st.sampled_from([None, "MINIMIZE", "GOAL_TYPE_UNSPECIFIED"]),
        "maxTrials": _counts,
        "maxParallelTrials": _counts,
        "maxFailedTrials": _counts,
        "hyperparameterMetricTag": st.none() | st.text(max_size=3),
        "resumePreviousJobId": st.none() | st.sampled_from(["tune_0", "tune_1", "0"]),
    },
)


@settings(max_examples=300, deadline=None)
@given(search=_searches)
def test_what_passes_is_a_study_that_can_be_run(search: dict[str, Any]) -> None:
    job = make_job(**search)

    outcome: StudySpec | tuple[FieldViolation, ...] | None
    try:
        outcome = job_spec_from_wire("demo", job).study
    except InvalidJobSpec as error:
        outcome = error.violations

    if isinstance(outcome, tuple):
        assert outcome
        assert all(violation.field.startswith("trainingInput.hyperparameters.") for violation in outcome)
        return
    study = outcome
    assert study is not None
    assert 1 <= study.max_trials <= 1000
    assert study.max_parallel_trials >= 1
    assert study.max_failed_trials >= 0
    assert study.metric_tag
    assert study.goal in (Goal.MAXIMIZE, Goal.MINIMIZE)
    assert len({each.name for each in study.parameters}) == len(study.parameters) >= 1
    asked = (job.training_input.hyperparameters if job.training_input else None) or HyperparameterSpec()
    assert len(study.parameters) == len(asked.params or [])
