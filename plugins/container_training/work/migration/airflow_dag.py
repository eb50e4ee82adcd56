"""A DAG file with Google's training operators, as DAGs to write. Without I/O."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from container_training.work.migration.airflow_calls import DagCall, DagFile, read_dag_file
from container_training.work.migration.legacy_job import Decision, LegacyDag
from container_training.work.migration.provider_jobs import jobs_of_dag_file
from container_training.work.migration.python_text import Code
from container_training.work.migration.python_values import code_or_value
from container_training.work.migration.shell_text import ShellText

#: Arguments of a DAG that are copied, by their names in Airflow 3.
_COPIED = {
    "schedule": "schedule",
    "schedule_interval": "schedule",
    "start_date": "start_date",
    "end_date": "end_date",
    "catchup": "catchup",
    "description": "description",
    "max_active_runs": "max_active_runs",
    "dagrun_timeout": "dagrun_timeout",
    "tags": "tags",
}
#: Arguments that are read elsewhere: the DAG's id, its params, and what all its tasks have.
_READ = frozenset({"dag_id", "params", "default_args"})


def dags_of_file(source: str, name: str) -> tuple[list[LegacyDag], ShellText]:
    """
    Return the DAGs of a file that have jobs, and where the marks in them come from. Pure.

    :param name: of the file; it names a DAG that has no id.
    :raises InvalidCommand: the file is not Python, or has no such job.
    """
    found = read_dag_file(source, name)
    jobs = jobs_of_dag_file(found)
    dags: dict[int, tuple[DagCall, list[Any]]] = {}
    for call, job in zip(found.calls, jobs, strict=True):
        dags.setdefault(call.dag.line, (call.dag, []))[1].append(job)
    default_id = name.rpartition("/")[2].removesuffix(".py")
    read = []
    for place, (dag, of_dag) in enumerate(dags.values()):
        given, decisions = _arguments(dag, found)
        if not place:
            decisions = [*_about_file(found), *decisions]
        dag_id = found.file.value(dag.arguments["dag_id"]) if "dag_id" in dag.arguments else default_id
        params = found.file.value(dag.arguments["params"]) if "params" in dag.arguments else {}
        read.append(
            LegacyDag(
                name=str(dag_id),
                jobs=of_dag,
                given=given,
                params=params if isinstance(params, dict) else {},
                decisions=decisions,
            )
        )
    return read, found.file.text


def _arguments(dag: DagCall, found: DagFile) -> tuple[dict[str, Any], list[Decision]]:
    given: dict[str, Any] = {}
    decisions = []
    start = dag.start_date
    for name, node in {**({"start_date": start} if start is not None else {}), **dag.arguments}.items():
        if name in _READ:
            continue
        value = code_or_value(found.file, node)
        is_known = isinstance(value, Code) or not found.file.text.parts_of(repr(value))
        if name in _COPIED and is_known:
            given[_COPIED[name]] = value
        else:
            written = f"{name}={ast.unparse(node)}"
            why = "only a run could tell its value" if name in _COPIED else "not copied"
            decisions.append(Decision(about="dag", text=f"line {node.lineno}: {written}: {why}"))
    return given, decisions


def _about_file(found: DagFile) -> Iterator[Decision]:
    if found.others:
        shown = ", ".join(f"{name} (line {line})" for name, line in found.others)
        yield Decision(about="dag", text=f"not copied, as they train nothing: {shown}")
    if found.orders:
        where = f"line{'s' * (len(found.orders) > 1)} {', '.join(map(str, found.orders))}"
        yield Decision(about="dag", text=f"not copied: the order of tasks, which {where} of the old file set")
