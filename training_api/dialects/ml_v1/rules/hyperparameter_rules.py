"""
The documented rules of a tuning job: of its search, and of each of its parameters.

Source of a rule, unless another is named: the discovery document's ``HyperparameterSpec`` and
``ParameterSpec``. Numbers that are 0 and texts that are empty are unset fields in the API's terms, and get
its defaults (``study_spec.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from training_api.dialects.ml_v1.resources import (
    HyperparameterSpec,
    Job,
    ParameterSpec,
    ParameterType,
    ScaleType,
    SearchAlgorithm,
)
from training_api.dialects.ml_v1.rules.job_rules import JOB_ID, JOB_ID_RULE
from training_api.job.tuning.bounds import (
    MAX_DISCRETE_VALUES,
    MAX_INTEGER,
    MAX_PARAMETERS,
    MAX_TRIALS,
    PARAMETER_NAME,
    PARAMETER_NAME_RULE,
)
from training_api.job.violations import Violations

PATH = "trainingInput.hyperparameters"
#: The service passes ``--job-dir`` itself; argparse reads both spellings into ``job_dir``.
_RESERVED = ("job-dir", "job_dir")
#: [unverified] What fits into an environment variable, where trainers find the tag; longer ones are not read
#: from their reports.
_MAX_METRIC_TAG = 256

_LOGARITHMIC = (ScaleType.UNIT_LOG_SCALE, ScaleType.UNIT_REVERSE_LOG_SCALE)


def check_hyperparameters(rules: Violations, job: Job, search: HyperparameterSpec) -> None:
    """
    Record each rule that the search of ``job`` breaks, by its path.

    ``trainingInput.hyperparameters.params[1].maxValue``.

    Pure. More trials in parallel than trials, and more failures than trials, are no mistakes: they limit
    nothing.
    """
    _check_counts(rules, search)
    tag = search.hyperparameter_metric_tag or ""
    if len(tag) > _MAX_METRIC_TAG or not tag.isprintable():
        rules.add(
            f"{PATH}.hyperparameterMetricTag",
            f"must be at most {_MAX_METRIC_TAG} printable characters; got {tag!r}",
        )
    _check_resumed(rules, search.resume_previous_job_id, job.job_id)
    params = search.params or []
    if not params:
        rules.add(f"{PATH}.params", "is required: at least one parameter to search")
    if len(params) > MAX_PARAMETERS:
        rules.add(f"{PATH}.params", f"must be at most {MAX_PARAMETERS} parameters; got {len(params)}")
        return  # what made one too many is not to be told of each
    _check_names(rules, params)
    for index, param in enumerate(params):
        _check_parameter(rules, f"{PATH}.params[{index}]", param, search.algorithm)


def _check_counts(rules: Violations, search: HyperparameterSpec) -> None:
    for name, count in (
        ("maxTrials", search.max_trials),
        ("maxParallelTrials", search.max_parallel_trials),
        ("maxFailedTrials", search.max_failed_trials),
    ):
        if count is not None and count < 0:
            rules.add(f"{PATH}.{name}", f"must not be negative (0 is the default); got {count}")
    if search.max_trials is not None and search.max_trials > MAX_TRIALS:
        rules.add(f"{PATH}.maxTrials", f"must be at most {MAX_TRIALS}; got {search.max_trials}")


def _check_resumed(rules: Violations, resumed: str | None, job_id: str | None) -> None:
    """
    Check the form of the earlier job's id.

    The service checks whether there is such a job.
    """
    path = f"{PATH}.resumePreviousJobId"
    if resumed and not JOB_ID.fullmatch(resumed):
        rules.add(path, f"must be a job's id, which {JOB_ID_RULE}; got {resumed!r}")
    elif resumed and resumed == job_id:
        rules.add(path, f"must name an earlier job, not the job itself; got {resumed!r}")


def _check_names(rules: Violations, params: Sequence[ParameterSpec]) -> None:
    first: dict[str, int] = {}
    for index, param in enumerate(params):
        path, name = f"{PATH}.params[{index}].parameterName", param.parameter_name
        if not name:
            rules.add(path, "is required: the trainer's argument --NAME")
        elif not PARAMETER_NAME.fullmatch(name):
            rules.add(path, f"{PARAMETER_NAME_RULE}; got {name!r}")
        elif name in _RESERVED:
            rules.add(path, f"must not be the job directory's, which the service passes itself; got {name!r}")
        elif name in first:
            rules.add(path, f"must be unique, params[{first[name]}] has it already; got {name!r}")
        else:
            first[name] = index


def _check_parameter(
    rules: Violations, path: str, param: ParameterSpec, algorithm: SearchAlgorithm | None
) -> None:
    kind = param.type or ParameterType.PARAMETER_TYPE_UNSPECIFIED
    if kind is ParameterType.PARAMETER_TYPE_UNSPECIFIED:
        rules.add(f"{path}.type", "is required: DOUBLE, INTEGER, CATEGORICAL or DISCRETE")
        return  # all other rules depend on it
    if kind is ParameterType.DOUBLE and algorithm is SearchAlgorithm.GRID_SEARCH:
        rules.add(
            f"{path}.type",
            "must be INTEGER, CATEGORICAL or DISCRETE with GRID_SEARCH; list the values as DISCRETE; got "
            "DOUBLE",
        )
    _check_foreign_fields(rules, path, param, kind)
    match kind:
        case ParameterType.CATEGORICAL:
            _check_categories(rules, path, param)
        case ParameterType.DISCRETE:
            _check_points(rules, path, param)
        case _:
            _check_bounds(rules, path, param, kind)


def _check_foreign_fields(rules: Violations, path: str, param: ParameterSpec, kind: ParameterType) -> None:
    """
    Check that what belongs to another type is unset.

    Bounds of a DISCRETE parameter are ignored, as documented. That lists of another type are refused is this
    service's own rule [unverified]: who sets one means it to be searched.
    """
    if kind is ParameterType.CATEGORICAL:
        for name, bound in (("minValue", param.min_value), ("maxValue", param.max_value)):
            if bound:
                rules.add(f"{path}.{name}", f"must not be set for CATEGORICAL; got {bound}")
        if param.scale_type not in (None, ScaleType.NONE):
            rules.add(f"{path}.scaleType", f"must not be set for CATEGORICAL; got {param.scale_type}")
    elif param.categorical_values:
        rules.add(f"{path}.categoricalValues", f"can only be set for CATEGORICAL, not {kind}")
    if kind is not ParameterType.DISCRETE and param.discrete_values:
        rules.add(f"{path}.discreteValues", f"can only be set for DISCRETE, not {kind}")


def _check_bounds(rules: Violations, path: str, param: ParameterSpec, kind: ParameterType) -> None:
    """
    Check the bounds of a DOUBLE or INTEGER.

    Equal ones are accepted; the parameter is then fixed.
    """
    low = _bound(rules, f"{path}.minValue", param.min_value, kind)
    high = _bound(rules, f"{path}.maxValue", param.max_value, kind)
    if low is not None and param.scale_type in _LOGARITHMIC and low <= 0:
        rules.add(f"{path}.minValue", f"must be more than 0 with {param.scale_type}; got {low}")
    if low is None or high is None:
        return
    if high < low:
        rules.add(f"{path}.maxValue", f"must be at least minValue, {low}; got {high}")
    elif not math.isfinite(high - low):
        rules.add(
            f"{path}.maxValue", f"must be nearer to minValue, {low}: no double holds the width; got {high}"
        )


def _bound(rules: Violations, path: str, value: float | None, kind: ParameterType) -> float | None:
    """Return a bound that is good by itself, or ``None``."""
    if value is None:
        rules.add(path, f"is required for {kind}; write 0 where it is 0")
    elif not math.isfinite(value):
        rules.add(path, f"must be finite; got {value}")
    elif kind is ParameterType.INTEGER and not value.is_integer():
        rules.add(path, f"must be a whole number for INTEGER; got {value}")
    elif kind is ParameterType.INTEGER and abs(value) > MAX_INTEGER:
        rules.add(path, f"must be from -2^53 to 2^53 for INTEGER; got {value}")
    else:
        return value
    return None


def _check_categories(rules: Violations, path: str, param: ParameterSpec) -> None:
    values = param.categorical_values or []
    if not values:
        rules.add(f"{path}.categoricalValues", "is required for CATEGORICAL: at least one value")
    seen: set[str] = set()
    for index, value in enumerate(values):
        each = f"{path}.categoricalValues[{index}]"
        if "\0" in value:
            rules.add(each, f"must not hold a NUL, which no argument can; got {value!r}")
        if value in seen:
            rules.add(each, f"must be unique; got {value!r} again")
        seen.add(value)


def _check_points(rules: Violations, path: str, param: ParameterSpec) -> None:
    values = param.discrete_values or []
    if not values:
        rules.add(f"{path}.discreteValues", "is required for DISCRETE: at least one value")
        return
    if len(values) > MAX_DISCRETE_VALUES:
        rules.add(
            f"{path}.discreteValues", f"must be at most {MAX_DISCRETE_VALUES} values; got {len(values)}"
        )
    endless = [index for index, value in enumerate(values) if not math.isfinite(value)]
    if endless:
        rules.add(f"{path}.discreteValues[{endless[0]}]", f"must be finite; got {values[endless[0]]}")
        return
    for index, (before, value) in enumerate(pairwise(values), start=1):
        if value <= before:
            rules.add(
                f"{path}.discreteValues[{index}]",
                f"must be more than the value before it, {before}: the values increase strictly; got {value}",
            )
            break
    if param.scale_type in _LOGARITHMIC and min(values) <= 0:
        rules.add(
            f"{path}.discreteValues",
            f"must all be more than 0 with {param.scale_type}; got {min(values)}",
        )
    elif not math.isfinite(max(values) - min(values)):
        rules.add(f"{path}.discreteValues", "must lie nearer together: no double holds their width")
