"""Whether data may be trained on: rows, columns, labels, and distance from the champion's."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, ValidationError

from container_training.work.models.data_profile import DataProfile, Drift, drift_from, profile_of
from container_training.work.template_values import mapping, problems, require_known
from training_api.errors import DataInvalid
from training_api.job.results import ResultModel

_SHOWN = 5
Share = Annotated[float, Field(ge=0, le=1)]


class DataRules(ResultModel):
    """
    The rules for a table.

    All features are numbers; another value is an error of the schema.

    :param columns: names in their order; or, for a table without a header line, their number: they are called
        ``0``, ``1`` ...
    :param label: the column with the label.
    :param labels: those that must occur, and no others; ``None``: any.
    :param low: smallest value of a feature, inclusive.
    :param high: largest value of a feature, inclusive.
    :param min_label_share: of the rows that each label must have.
    :param max_drift: largest population stability index of a column against the reference; 0.25 is a large
        change.
    """

    columns: list[str] | Annotated[int, Field(ge=2)]
    label: str
    labels: list[str] | None = None
    min_rows: Annotated[int, Field(ge=1)] = 1
    max_rows: int | None = None
    low: float = -math.inf
    high: float = math.inf
    min_label_share: Share = 0.0
    max_drift: Annotated[float, Field(gt=0)] = 0.25

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return (
            [str(number) for number in range(self.columns)] if isinstance(self.columns, int) else self.columns
        )


class DataCheck(ResultModel):
    """One check: what was looked at, and what was found."""

    name: str
    passed: bool
    found: str


class DataReport(ResultModel):
    """
    What became of all checks.

    :param checks: in the order in which they were made; after a broken schema there are no others.
    :param drift: of the columns furthest from the reference, the furthest first; empty without a reference.
    """

    rows: int
    checks: list[DataCheck]
    drift: list[Drift] = []

    @property
    def failed(self) -> list[DataCheck]:
        """The checks that failed."""
        return [check for check in self.checks if not check.passed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """
    Columns of features, N values each, and N labels.

    ``problems`` are errors of the form; with them the rest is empty.
    """

    features: Mapping[str, Sequence[float]]
    labels: Sequence[str]
    problems: Sequence[str] = ()


def parse_rules(given: Mapping[str, Any]) -> DataRules:
    """Return the rules in ``given``. Pure.

    :raises InvalidArgument: they are no mapping, or one is unknown.
    :raises DataInvalid: one is impossible.
    """
    wanted = mapping("rules", given)
    require_known("rules", wanted, DataRules.model_fields)
    try:
        rules = DataRules.model_validate(wanted)
    except ValidationError as error:
        raise DataInvalid(f"rules cannot be read: {problems(error)}; correct them in the DAG") from error
    if rules.label not in rules.names:
        raise DataInvalid(
            f"rules: label must be one of the columns, got {rules.label!r}; name one of {_some(rules.names)}"
        )
    return rules


def parse_tables(contents: Iterable[tuple[str, bytes]], rules: DataRules) -> Table:
    """Return the rows of CSV files as one table; ``contents`` are names and bytes. Pure."""
    names = rules.names
    label_at = names.index(rules.label)
    columns: list[list[float]] = [[] for _ in names]
    labels: list[str] = []
    problems: list[str] = []
    for uri, content in contents:
        for line, row in _rows(uri, content, rules, problems):
            if (problem := _take(row, label_at, columns, labels)) and len(problems) < _SHOWN:
                problems.append(f"{uri}:{line}: {problem}")
    if problems:
        return Table(features={}, labels=(), problems=problems)
    features = {name: columns[place] for place, name in enumerate(names) if place != label_at}
    return Table(features=features, labels=labels)


def check_table(
    table: Table, rules: DataRules, reference: DataProfile | None
) -> tuple[DataReport, DataProfile | None]:
    """
    Return the report, and the profile of the table if its form is right. Pure.

    :param reference: what the champion was trained on; ``None``: there is none, and drift is not looked at.
    """
    rows = len(table.labels)
    checks = [
        DataCheck(
            name="schema",
            passed=not table.problems,
            found="; ".join(table.problems) or f"{len(rules.names)} columns",
        )
    ]
    if table.problems or not rows:
        if not rows and not table.problems:
            checks.append(_row_check(rows, rules))
        return DataReport(rows=rows, checks=checks), None
    checks += [_row_check(rows, rules), _range_check(table, rules), *_label_checks(table, rules)]
    drift: list[Drift] = []
    if reference is not None:
        drift = sorted(
            drift_from(reference, table.features, table.labels, max_psi=rules.max_drift),
            key=lambda column: -column.psi / column.limit,
        )
        drifted = [column for column in drift if column.is_drifted]
        shown = ", ".join(
            f"{column.column} {column.psi:.3f} (limit {column.limit:.3f})" for column in drift[:_SHOWN]
        )
        checks.append(
            DataCheck(
                name="drift",
                passed=not drifted,
                found=f"{len(drifted)} of {len(drift)} columns drifted: PSI {shown}",
            )
        )
    return DataReport(rows=rows, checks=checks, drift=drift[:_SHOWN]), profile_of(
        table.features, table.labels
    )


def _row_check(rows: int, rules: DataRules) -> DataCheck:
    passed = rows >= rules.min_rows and (rules.max_rows is None or rows <= rules.max_rows)
    limit = f"min_rows {rules.min_rows}" + (
        f", max_rows {rules.max_rows}" if rules.max_rows is not None else ""
    )
    return DataCheck(name="rows", passed=passed, found=f"{rows} rows, {limit}")


def _range_check(table: Table, rules: DataRules) -> DataCheck:
    outside = [
        f"{name} from {min(values):g} to {max(values):g}"
        for name, values in table.features.items()
        if min(values) < rules.low or max(values) > rules.high
    ]
    limits = f"{rules.low:g} to {rules.high:g}"
    return DataCheck(
        name="range", passed=not outside, found=_some(outside) if outside else f"within {limits}"
    )


def _label_checks(table: Table, rules: DataRules) -> list[DataCheck]:
    counts = Counter(table.labels)
    checks = []
    if rules.labels is not None:
        unknown, missing = sorted(set(counts) - set(rules.labels)), sorted(set(rules.labels) - set(counts))
        found = (
            f"unknown: {_some(unknown)}; missing: {_some(missing)}"
            if unknown or missing
            else f"{len(counts)} labels"
        )
        checks.append(DataCheck(name="labels", passed=not unknown and not missing, found=found))
    rarest, count = min(counts.items(), key=lambda item: (item[1], item[0]))
    share = count / len(table.labels)
    return [
        *checks,
        DataCheck(
            name="label balance",
            passed=share >= rules.min_label_share,
            found=f"label {rarest!r} has {share:.2%} of the rows, min_label_share {rules.min_label_share:.2%}",
        ),
    ]


def _rows(uri: str, content: bytes, rules: DataRules, problems: list[str]) -> Iterable[tuple[int, list[str]]]:
    """Yield line numbers and rows of the right width; the header is checked and left out."""
    names = rules.names
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.append(f"{uri}: not a text in UTF-8: {error}")
        return
    reader = csv.reader(io.StringIO(text))
    if isinstance(rules.columns, list):
        header = next(reader, [])
        if header != names:
            problems.append(f"{uri}:1: the header must be {_some(names)}, got {_some(header)}")
            return
    for row in reader:
        if not row:
            continue
        if len(row) == len(names):
            yield reader.line_num, row
        elif len(problems) < _SHOWN:
            problems.append(f"{uri}:{reader.line_num}: a row must have {len(names)} columns, got {len(row)}")


def _take(row: Sequence[str], label_at: int, columns: list[list[float]], labels: list[str]) -> str:
    """Add a row to the columns; return what is wrong with it, or nothing."""
    for place, text in enumerate(row):
        if place == label_at:
            continue
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            return f"column {place} must be a finite number, got {text!r}"
        columns[place].append(value)
    labels.append(_label(row[label_at]))
    return ""


def _label(text: str) -> str:
    """
    Return a label as text.

    Whole numbers are written without the zero that some writers add (``3.0``).
    """
    stripped = text.strip()
    return stripped.removesuffix(".0") if stripped.removesuffix(".0").lstrip("-").isdecimal() else stripped


def _some(names: Sequence[str]) -> str:
    return (", ".join(names[:_SHOWN]) or "none") + (" ..." if len(names) > _SHOWN else "")
