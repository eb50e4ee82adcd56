"""Job files: what they may hold, and what is said of what they may not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any, get_args, get_origin

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from container_training.work.submission.job_file import MAX_PROBLEMS
from container_training.work.submission.job_file_reader import MAX_BYTES, MAX_DEPTH, parse_job_file
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.errors import FieldViolation, InvalidJobSpec
from training_api.job.tuning.search_terms import Goal
from training_api.wire import WireModel

#: Example 2 of the guide "Submit a training job", "Format your configuration parameters".
GUIDE = """\
trainingInput:
  scaleTier: CUSTOM
  masterType: complex_model_m
  workerType: complex_model_m
  parameterServerType: large_model
  workerCount: 9
  parameterServerCount: 3
  runtimeVersion: '2.11'
  pythonVersion: '3.7'
  scheduling:
    maxWaitTime: 3600s
    maxRunningTime: 7200s
"""


def read(text: str) -> dict[str, Any]:
    return parse_job_file(text, "config.yaml")


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidJobSpec) as refused:
        read(text)
    return [f"{violation.field}: {violation.description}" for violation in refused.value.violations]


def outcome(text: str) -> tuple[dict[str, Any] | None, Sequence[FieldViolation]]:
    try:
        return read(text), ()
    except InvalidJobSpec as error:
        return None, error.violations


def test_the_guides_file_is_read() -> None:
    assert read(GUIDE) == {
        "trainingInput": {
            "scaleTier": "CUSTOM",
            "masterType": "complex_model_m",
            "workerType": "complex_model_m",
            "parameterServerType": "large_model",
            "workerCount": "9",
            "parameterServerCount": "3",
            "runtimeVersion": "2.11",
            "pythonVersion": "3.7",
            "scheduling": {"maxWaitTime": "3600s", "maxRunningTime": "7200s"},
        }
    }


@pytest.mark.parametrize(
    "text", ["", "\n# nothing yet\n", "---\n", "null", "{}", "trainingInput:", "jobId: ~"]
)
def test_a_file_may_set_nothing(text: str) -> None:
    assert read(text) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("job_id: a\ntraining_input: {scale_tier: BASIC}",
         {"jobId": "a", "trainingInput": {"scaleTier": "BASIC"}}),
        ('{\n\t"jobId":\t"a"\n}', {"jobId": "a"}),
        ('{"jobId": "\\ud83d\\ude00"}', {"jobId": "😀"}),
        ("labels: {norway: no, id: 010, noon: 12:30, day: 2026-11-20}",
         {"labels": {"norway": "no", "id": "010", "noon": "12:30", "day": "2026-11-20"}}),
        ("trainingInput: {useChiefInTfConfig: true, args: ['3', --x]}",
         {"trainingInput": {"useChiefInTfConfig": True, "args": ["3", "--x"]}}),
        ("trainingInput: {hyperparameters: {params: [{minValue: 1e-4, maxValue: 5, discreteValues: [.5, -1.]}]}}",
         {"trainingInput": {"hyperparameters": {
             "params": [{"minValue": 0.0001, "maxValue": 5.0, "discreteValues": [0.5, -1.0]}]}}}),
    ],
)  # fmt: skip
def test_values_are_read_as_in_json_and_the_core_schema_of_yaml(text: str, expected: dict[str, Any]) -> None:
    assert read(text) == expected


def test_a_file_of_a_tuning_job_is_a_good_search() -> None:
    text = """
trainingInput:
  masterConfig: {imageUri: gcr.io/demo/train:1}
  hyperparameters:
    goal: MINIMIZE
    hyperparameterMetricTag: eval/loss
    max_trials: 20
    maxParallelTrials: 4
    enableTrialEarlyStopping: true
    params:
      - {parameterName: rate, type: DOUBLE, minValue: 1e-4, maxValue: 0.1, scaleType: UNIT_LOG_SCALE}
      - {parameterName: units, type: INTEGER, minValue: 16, maxValue: 256, scaleType: UNIT_LINEAR_SCALE}
      - parameterName: kernel
        type: CATEGORICAL
        categoricalValues: [rbf, linear]
      - parameterName: depth
        type: DISCRETE
        discreteValues: [1.5, 2, 4]
"""

    spec = job_spec_from_wire("demo", Job.model_validate(read(text) | {"jobId": "tune"}))

    assert spec.study is not None
    assert (spec.study.goal, spec.study.max_trials, spec.study.stops_early) == (Goal.MINIMIZE, 20, True)
    parameters = spec.study.parameters
    assert [parameter.name for parameter in parameters] == ["rate", "units", "kernel", "depth"]
    assert parameters[3].values == (1.5, 2.0, 4.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("trainingInput:\n  scaleTeir: BASIC",
         "trainingInput.scaleTeir: config.yaml:2: unknown key, did you mean 'scaleTier'?"),
        ("trainingInput:\n  scale_teir: BASIC",
         "trainingInput.scale_teir: config.yaml:2: unknown key, did you mean 'scaleTier'?"),
        ("traininginput: {}", "traininginput: config.yaml:1: unknown key, did you mean 'trainingInput'?"),
        ("frobnicate: 1", "frobnicate: config.yaml:1: unknown key"),
        ("\nregion: x", "region: config.yaml:2: unknown key, it belongs into trainingInput"),
        ("trainingInput: {jobId: x}",
         "trainingInput.jobId: config.yaml:1: unknown key, it belongs into the top level"),
        ("trainingInput:\n  hyperparameters:\n    params:\n      - type: DOUBLE\n      - minvalue: 1",
         "trainingInput.hyperparameters.params[1].minvalue: config.yaml:5: unknown key, did you mean 'minValue'?"),
        ("trainingInput:\n  hyperparameters:\n    maxTrails: 3",
         "trainingInput.hyperparameters.maxTrails: config.yaml:3: unknown key, did you mean 'maxTrials'?"),
        ("trainingInput:\n  hyperparameters:\n    params: []\n    scaleType: NONE",
         ("trainingInput.hyperparameters.scaleType: config.yaml:4: unknown key, "
          "it belongs into trainingInput.hyperparameters.params[]")),
        ("trainingInput:\n  maxTrials: 3",
         "trainingInput.maxTrials: config.yaml:2: unknown key, it belongs into trainingInput.hyperparameters"),
        ("trainingInput:\n  hyperparameters:\n    params:\n    - type: DOBLE",
         ("trainingInput.hyperparameters.params[0].type: config.yaml:4: must be one of "
          "PARAMETER_TYPE_UNSPECIFIED, DOUBLE, INTEGER, CATEGORICAL, DISCRETE, got 'DOBLE', did you mean 'DOUBLE'?")),
        ("? [a]\n: 1", "config_file: config.yaml:1: a key must be text, got a list"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_named_with_its_line_and_the_nearest_one(text: str, expected: str) -> None:
    assert problems(text) == [expected]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("runtimeVersion: 2.11", "runtimeVersion: must be text, got 2.11 (put it in quotes: '2.11')"),
        ("region: true", "region: must be text, got true (put it in quotes: 'true')"),
        ("region: [x]", "region: must be text, got a list"),
        ("workerCount: nine", "workerCount: must be a whole number in its range, got 'nine'"),
        ("workerCount: 1.5", "workerCount: must be a whole number in its range, got 1.5"),
        ("workerCount: true", "workerCount: must be a whole number in its range, got true"),
        ("workerCount: 9223372036854775808",
         "workerCount: must be a whole number in its range, got 9223372036854775808"),
        ("scheduling: {priority: true}", "scheduling.priority: must be a whole number in its range, got true"),
        ("enableWebAccess: maybe", "enableWebAccess: must be true or false, got 'maybe'"),
        ("args: --epochs 3", "args: must be a list, got '--epochs 3'"),
        ("args: [--epochs, 3]", "args[1]: must be text, got 3 (put it in quotes: '3')"),
        ("args: [--epochs, ]\n  masterConfig: 1", "masterConfig: must be a mapping, got 1"),
        ("args: [~]", "args[0]: must be text, got nothing"),
        ("scheduling: [x]", "scheduling: must be a mapping, got a list"),
        ("scaleTier: basic-gpu",
         "scaleTier: must be one of BASIC, STANDARD_1, PREMIUM_1, BASIC_GPU, BASIC_TPU, CUSTOM, got 'basic-gpu', did you mean 'BASIC_GPU'?"),
        ("region: &here [*here]", "region[0]: aliases are not allowed: write the value out"),
        ("region: !!str x", "region: tags are not allowed, got 'tag:yaml.org,2002:str'"),
        ('region: "\\ud800"', "region: holds half of a surrogate pair, which is no character"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_the_rule_and_its_line(value: str, expected: str) -> None:
    line = 3 if "masterConfig" in value else 2
    path, _, text = expected.partition(": ")

    assert f"trainingInput.{path}: config.yaml:{line}: {text}" in problems(f"trainingInput:\n  {value}\n")


def test_a_duplicate_key_is_named_with_both_lines_under_whichever_name() -> None:
    text = (
        "jobId: a\ntrainingInput:\n  scaleTier: BASIC\n  scale_tier: CUSTOM\njobId: b\nlabels: {x: a, x: b}\n"
    )

    assert problems(text) == [
        "trainingInput.scaleTier: config.yaml:4: duplicate key, it is on line 3 already",
        "jobId: config.yaml:5: duplicate key, it is on line 1 already",
        "labels.x: config.yaml:6: duplicate key, it is on line 6 already",
    ]


def test_all_problems_are_named_in_the_order_of_the_lines() -> None:
    text = "labels: {n: 1}\ntrainingInput:\n  workerCount: x\n  regoin: x\n  jobDir: [x]\nnmae: x\n"

    assert [problem.split(":")[2] for problem in problems(text)] == ["1", "3", "4", "5", "6"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a", "config.yaml:1: must be a mapping of the Job resource, got a list"),
        ("\nsome text", "config.yaml:2: must be a mapping of the Job resource, got 'some text'"),
        ("!!set {}", "config.yaml:1: tags are not allowed, got 'tag:yaml.org,2002:set'"),
        ("a: [\nb", "config.yaml:2:2: broken YAML: expected ',' or ']', but got '<stream end>'"),
        ("a:\n\tb: 1", "config.yaml:2:1: broken YAML: found character '\\t' that cannot start any token"),
        ("a: b: c", "config.yaml:1:5: broken YAML: mapping values are not allowed here"),
        ("a:\n  \x07", "config.yaml:2:3: broken YAML: special characters are not allowed"),
        ('a: "\\U00110000"', "config.yaml:1: broken YAML: chr() arg not in range(0x110000)"),
        ("jobId: a\n---\njobId: b", "config.yaml:2: must hold one document, here begins a second one"),
        ("[" * 100_000, f"config.yaml:1: must be at most {MAX_DEPTH} levels deep"),
        ("#" * (MAX_BYTES + 1), "config.yaml: must be at most 1 MiB"),
    ],
    ids=range(11),
)  # fmt: skip
def test_a_file_that_cannot_be_read_as_a_whole_is_refused(text: str, expected: str) -> None:
    assert problems(text) == [f"config_file: {expected}"]


def test_a_billion_laughs_are_not_laughed() -> None:
    lines = ["a0: &a0 [ha, ha]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    laughs = "\n  ".join(lines)

    assert len(problems(f"predictionInput:\n  {laughs}\n")) == 78


def test_of_very_many_problems_the_first_are_named() -> None:
    named = problems("".join(f"k{n}: 1\n" for n in range(MAX_PROBLEMS + 7)))

    assert named[-2:] == [
        "k99: config.yaml:100: unknown key",
        "config_file: config.yaml:101: and 7 problems more",
    ]


@settings(max_examples=300, deadline=None)
@given(text=st.text() | st.text(alphabet="a:{}[]-?!&*|>'\"\\%#~\n\t 1.eU,<=\ufeff"))
@example(text="? |\n")
@example(text="%YAML 1.1\n---\n<<: {a: 1}")
@example(text="%YAML " + "9" * 5000 + ".1\n---\na")
@example(text="jobId: " + "9" * 5000)
@example(text="jobId: 1e999999999")
def test_any_text_gives_a_job_or_the_error(text: str) -> None:
    job, violations = outcome(text)

    assert isinstance(job, dict) != bool(violations)
    assert all("config.yaml:" in violation.description for violation in violations)


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(max_size=9) | st.from_regex(r"[-+]?[0-9._eE]{1,6}", fullmatch=True),
    key=st.sampled_from(["workerCount", "region", "enableWebAccess", "args", "scaleTier", "hyperparameters"]),
)
def test_any_value_gives_a_job_or_the_error_with_its_line(text: str, key: str) -> None:
    job, violations = outcome(f"trainingInput:\n  {key}: {text}")

    assert isinstance(job, dict) != bool(violations)
    assert all("config.yaml:" in violation.description for violation in violations)


#: Text that YAML may take for another type.
_ODD_TEXTS = ("no", "1e3", "1.5e+3", "010", "~", "null", "3.7", "2026-01-01", " x: y ")


def wire_values(annotation: Any) -> st.SearchStrategy[Any]:
    """Return values of a wire model's field, as the API answers them."""
    arguments = [part for part in get_args(annotation) if part is not type(None)]
    if type(None) in get_args(annotation) or get_origin(annotation) is Annotated:
        return wire_values(arguments[0])
    if get_origin(annotation) is list:
        return st.lists(wire_values(arguments[0]), max_size=3)
    if issubclass(annotation, WireModel):
        optional = {
            str(field.alias): wire_values(field.annotation) for field in annotation.model_fields.values()
        }
        return st.fixed_dictionaries({}, optional=optional)
    if issubclass(annotation, Enum):
        return st.sampled_from([member.value for member in annotation])
    strategies: dict[type, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(-(2**31), 2**31 - 1),
        float: st.floats(allow_nan=False),
        str: st.text(max_size=12) | st.sampled_from(_ODD_TEXTS),
    }
    return strategies[annotation]


@settings(max_examples=100, deadline=None)
@given(sent=wire_values(TrainingInput), indent=st.sampled_from([None, 2, "\t"]), is_ascii=st.booleans())
def test_what_is_written_as_yaml_or_json_is_read_again(
    sent: dict[str, Any], indent: int | str | None, is_ascii: bool
) -> None:
    training = TrainingInput.model_validate(sent).to_wire()
    job = {"jobId": "j", "trainingInput": training}

    assert read(yaml.safe_dump(job)) == job
    assert read(json.dumps(job, indent=indent, ensure_ascii=is_ascii)) == job
