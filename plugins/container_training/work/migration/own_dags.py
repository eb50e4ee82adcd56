"""
A DAG file of this project, with what has to be decided before its jobs run on Vertex AI.

The file is parsed, never run. Without I/O.
"""

from __future__ import annotations

import ast
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from container_training.work.migration.airflow_calls import arguments_of, imported_names, operator_name
from container_training.work.migration.dag_text import decision_comment
from container_training.work.migration.legacy_job import refusal
from container_training.work.migration.python_values import PythonFile
from container_training.work.migration.shell_text import has_mark
from container_training.work.migration.vertex_decisions import is_unknown, refused_by_vertex
from container_training.work.submission.job_request import JobFields, in_arguments, job_request
from training_api.dialects.ml_v1.roles import ROLES
from training_api.errors import FieldViolation, InvalidArgument, InvalidCommand, InvalidJobSpec

#: What makes a job. Decorators are calls as well: ``@task.training_job(...)``.
_CALLS = frozenset(
    {
        "SubmitTrainingJobOperator",
        "training_pipeline",
        "training_step",
        "training_job",
        "training_job_task",
    }
)
_CONNECTION = "training_conn_id"
_DEFAULT_CONNECTION = "training_default"

#: Fields that are numbers, and whose value breaks no rule of Vertex AI alone.
_NUMBERS = frozenset({"worker_count", "parameter_server_count", "evaluator_count", "priority"})
#: Arguments whose values are not the same on both services.
_DIFFERENT = ("scale_tier", "runtime_version", "python_version", *(f"{role.name}_" for role in ROLES))

ReadJobFile = Callable[[str], Mapping[str, Any]]


def own_dag_for_vertex(source: str, name: str, read_job_file: ReadJobFile) -> str | None:
    """
    Return a DAG file of this project with DECIDE lines above its jobs. Pure.

    Nothing else of it changes: its connection decides where a job runs. ``None``: the file has no such call.

    :param name: of the file, for messages.
    :param read_job_file: returns the content of a ``config_file``; raises ``InvalidJobSpec``.
    :raises InvalidCommand: it is not Python.
    """
    try:
        file = PythonFile(source)
    except SyntaxError as error:
        raise InvalidCommand(f"{name}:{error.lineno}: is not Python: {error.msg}") from error
    names = imported_names(file.tree)
    calls = [
        node
        for node in ast.walk(file.tree)
        if isinstance(node, ast.Call) and operator_name(node, names) in _CALLS
    ]
    if not calls:
        return None
    above: dict[int, list[str]] = {}
    connections: set[str] = set()
    for call in sorted(calls, key=lambda each: each.lineno):
        job = _JobCall(call, file, read_job_file)
        decisions = [*job.decisions()]
        if job.connection not in connections:
            connections.add(job.connection)
            decisions.insert(
                0,
                f"the connection {job.connection} must be of the type vertex_training: it has Vertex AI's project",
            )
        above.setdefault(_first_line(call, file), []).extend(decisions)
    return "".join(_with_comments(source, above))


class _JobCall:
    """A call that makes a job."""

    def __init__(self, call: ast.Call, file: PythonFile, read_job_file: ReadJobFile) -> None:
        self._file = file
        self._read_job_file = read_job_file
        self._arguments, self._unread = arguments_of(call, file)

    @property
    def connection(self) -> str:
        """The connection that decides where the job runs."""
        given = self._value(_CONNECTION) or _DEFAULT_CONNECTION
        return self._file.text.as_written(str(given))

    def decisions(self) -> Iterator[str]:
        """Yield what Vertex AI does not have, each with the nearest choice."""
        if unread := [each for each in self._unread if each.startswith("**")]:
            yield f"only a run knows {', '.join(unread)}: what that says of the job is not judged"
        try:
            job = job_request(self._value("job"), self._fields(), self._job_file())
        except InvalidJobSpec as error:
            yield from _told(error.violations)
            if unknown := _unknown(error.violations):
                yield f"only a run knows {', '.join(unknown)}: what Vertex AI lacks for this job is told when it is submitted"
            return
        except InvalidArgument as error:
            yield str(error)
            return
        named = job.model_copy(update={"job_id": "migrated"})
        violations = [*refused_by_vertex(named, self._options())]
        yield from _told(violations)
        for argument in _unknown(violations):
            if argument.startswith(_DIFFERENT):
                yield f"only a run knows {argument}: if Vertex AI does not have it, that is told when the job is submitted"

    def _fields(self) -> JobFields:
        """Return the job's fields; an unknown number is 1, so that the rest can be judged."""
        found = {name: self._value(name) for name in JobFields.__annotations__ if name in self._arguments}
        numbers = {name: 1 for name in _NUMBERS & found.keys() if is_unknown(str(found[name]))}
        return cast("JobFields", {**found, **numbers})

    def _job_file(self) -> Mapping[str, Any] | None:
        path = self._value("config_file")
        return self._read_job_file(path) if isinstance(path, str) and not has_mark(path) else None

    def _options(self) -> Mapping[str, Any]:
        options = self._value("vertex_options")
        return options if isinstance(options, Mapping) and not has_mark(repr(options)) else {}

    def _value(self, argument: str) -> Any:
        node = self._arguments.get(argument)
        return None if node is None else self._file.value(node)


def _told(violations: Sequence[FieldViolation]) -> Iterator[str]:
    for violation in violations:
        if not is_unknown(violation.description):
            yield refusal("Vertex AI", replace(violation, field=in_arguments(violation.field)))


def _unknown(violations: Sequence[FieldViolation]) -> list[str]:
    """Return the arguments that cannot be judged, each once."""
    unknown = (each.field for each in violations if is_unknown(each.description))
    return [*dict.fromkeys(map(in_arguments, unknown))]


def _first_line(call: ast.Call, file: PythonFile) -> int:
    """Return the line above which a comment on ``call`` stands."""
    for parent in file.parents(call):
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            break  # the call is a decorator of it
        if isinstance(parent, ast.stmt):
            return parent.lineno
    return call.lineno


def _with_comments(source: str, above: Mapping[int, Sequence[str]]) -> Iterator[str]:
    for number, line in enumerate(io.StringIO(source, newline=""), 1):  # the lines that Python counts
        indent = line[: len(line) - len(line.lstrip())]
        for decision in above.get(number, ()):
            for comment in decision_comment(decision, indent):
                yield f"{comment}\n"
        yield line
