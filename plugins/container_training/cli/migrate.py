"""``migrate``: writes a DAG file for a job file, gcloud command or Airflow DAG."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from container_training.work.migration.airflow_dag import dags_of_file
from container_training.work.migration.dag_text import DagOptions, dag_source, dags_source, decisions_in
from container_training.work.migration.gcloud_command import find_gcloud_command
from container_training.work.migration.legacy_job import LegacyJob, job_from_command, job_from_file
from container_training.work.migration.own_dags import ReadJobFile, own_dag_for_vertex
from container_training.work.migration.shell_text import read_shell_text
from container_training.work.migration.vertex_decisions import for_vertex
from container_training.work.submission.job_file_reader import load_job_file
from training_api.command_line.outcome import ExitStatus, UsageError, run_command
from training_api.command_line.screen import Screen


def add_command(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser's ``commands``."""
    help_ = "write a DAG file for a legacy job file, a gcloud command, or a DAG with operators of Google's provider"
    parser = commands.add_parser("migrate", help=help_, description=help_)
    parser.add_argument(
        "config", nargs="?", metavar="CONFIG", help="job file: YAML or JSON; or a DAG file, *.py"
    )
    parser.add_argument(
        "--gcloud",
        metavar="COMMAND",
        help="`gcloud ai-platform jobs submit training ...` as it was used, in quotes; - reads it from standard input. "
        "It is never executed",
    )
    parser.add_argument(
        "--to",
        choices=["vertex"],
        help="where the jobs will run: Vertex AI; DECIDE lines then name what it does not have, and the nearest choice",
    )
    parser.add_argument("--dag-id", help="default: from the job's name")
    parser.add_argument("--context", metavar="DIR", help="build the master's image from this folder")
    parser.add_argument("--output", "-o", metavar="FILE", help="default: standard output")
    parser.set_defaults(run=lambda options: run_command(lambda: _run(options)))


def _run(options: argparse.Namespace) -> ExitStatus:
    source = _source(options)
    if not options.output:
        sys.stdout.write(source)
        return ExitStatus.DONE
    try:
        with Path(options.output).open("x", encoding="utf-8") as file:
            file.write(source)
    except FileExistsError as error:
        raise UsageError(f"{options.output} exists; remove it, or choose another --output") from error
    report = decisions_in(source)
    screen = Screen(as_json=False)
    screen.say(f"{options.output} is written; {len(report)} places in it need a person: look for DECIDE")
    for line, decision in report:
        screen.say(f"{options.output}:{line}: {decision}")
    return ExitStatus.DONE


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as text: {error}") from error


def _source(options: argparse.Namespace) -> str:
    if (options.config is None) == (options.gcloud is None):
        raise UsageError("migrate takes a job file or --gcloud COMMAND, whose --config names the job file")
    if options.config is not None:
        path = Path(options.config)
        if path.suffix == ".py":
            source = _read(path)
            own = own_dag_for_vertex(source, path.name, _job_file_of(path)) if options.to else None
            if own is not None:
                return _only_comments(own, options, path.name)
            dags, text = dags_of_file(source, path.name)
            dags = [replace(dag, jobs=[_aimed(job, options) for job in dag.jobs]) for dag in dags]
            return dags_source(dags, _dag_options(options, path.name), text)
        job = _aimed(job_from_file(load_job_file(path), path.stem), options)
        return dag_source(job, _dag_options(options, path.name))
    pasted = sys.stdin.read() if options.gcloud == "-" else options.gcloud
    shell = read_shell_text(pasted)
    command = find_gcloud_command(shell)
    config = command.last("config")
    if config is not None and shell.parts_of(config):
        raise UsageError(
            f"--config {shell.as_written(config)}: only the shell knows which file that is; write its path"
        )
    file = load_job_file(Path(config)) if config is not None else None
    job = _aimed(job_from_command(command, shell, file), options)
    return dag_source(job, _dag_options(options, "a gcloud command"), shell)


def _job_file_of(dag_file: Path) -> ReadJobFile:
    """Return a reader of job files; a relative path starts at the DAG's folder."""
    return lambda path: load_job_file(dag_file.parent / path)


def _only_comments(source: str, options: argparse.Namespace, name: str) -> str:
    if options.dag_id or options.context:
        raise UsageError(
            f"{name} has this project's operators: its text stays, without --dag-id and --context"
        )
    return source


def _aimed(job: LegacyJob, options: argparse.Namespace) -> LegacyJob:
    return for_vertex(job) if options.to == "vertex" else job


def _dag_options(options: argparse.Namespace, source: str) -> DagOptions:
    return DagOptions(source=source, dag_id=options.dag_id, context_dir=options.context)
