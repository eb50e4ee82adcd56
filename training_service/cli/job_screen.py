"""How jobs, log entries and trials look on a terminal, in a pipe and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from training_api.cloud_logging import LogEntry, Severity
from training_api.command_line.cells import duration_text, moment_text, printable, state_text
from training_api.command_line.screen import Screen
from training_api.dialects.ml_v1.job_rows import JobDetail, JobRow
from training_api.dialects.ml_v1.trials import progress_line, result_of
from training_api.dialects.registry import title_of
from training_api.fleet.job_detail import PoolView, trial_rows
from training_api.states import JobState
from training_service.cli.trials_table import trials_table


class JobScreen(Screen):
    """A screen that shows jobs and lines of their logs."""

    def show_jobs(self, jobs: Iterable[JobRow]) -> None:
        """Print a table, one job a row."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("JOB_ID", "API", "STATE", "CREATED", "TOOK"):
            table.add_column(column, no_wrap=True)
        table.add_column("NAME", overflow="ellipsis", no_wrap=True)
        table.add_column("IMAGE", overflow="ellipsis", no_wrap=True)
        for job in jobs:
            table.add_row(
                job.job_id,
                title_of(job.dialect),
                state_text(job.state),
                moment_text(job.create_time),
                _took(job),
                printable(job.display_name) or "-",
                _image(job),
            )
        self.out.print(table)

    def show_job(self, found: JobDetail) -> None:
        """Print one job, one field a row; fields that it has not are left out."""
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        job = found.job
        trials = trial_rows(found.trials, datetime.now(UTC))
        study = result_of(found.study.spec, trials) if found.study else None
        rows: dict[str, str | Text | None] = {
            "job": job.job_id,
            "name": job.display_name,
            "api": title_of(job.dialect),
            "resource": found.name,
            "pipeline": found.pipeline.name if found.pipeline else None,
            "state": state_text(job.state),
            "error": Text(printable(job.error_message), "red") if job.error_message else None,
            "position": str(job.job_position) if job.job_position is not None else None,
            "created": moment_text(job.create_time),
            "started": moment_text(job.start_time),
            "ended": moment_text(job.end_time),
            "took": _took(job),
            "trials": progress_line(study).removeprefix("trials: ") if study else None,
            **{pool.name: _pool(pool) for pool in found.pools},
            "folder": found.output_dir,
            "labels": ", ".join(f"{key}={value}" for key, value in job.labels.items()),
        }
        for name, value in rows.items():
            if value:
                table.add_row(name, Text(printable(value)) if isinstance(value, str) else value)
        self.out.print(table)
        if study and study.trials:
            self.out.print()
            self.out.print(trials_table(study))

    def show_entry(self, entry: LogEntry) -> None:
        """Print one line of a log; JSON has a line to itself."""
        if self.as_json:
            sys.stdout.write(json.dumps(entry.to_wire(), ensure_ascii=False) + "\n")
            return
        line = Text()
        line.append(f"{moment_text(entry.timestamp)} ", style="dim")
        line.append(f"{entry.severity.value:<8} ", style=_severity_style(entry.severity))
        line.append(f"{entry.task_name}  ", style="dim")
        message = entry.message or json.dumps(entry.json_payload or "", ensure_ascii=False)
        line.append(printable(message) if self.out.is_terminal else message)
        self.out.print(line, soft_wrap=True)


def describe_progress(job: JobRow) -> str:
    """Return ``QUEUED, position 2, for 0:00:10``: what a wait shows."""
    since = job.start_time if job.state is JobState.RUNNING else job.create_time
    parts = [job.state.value]
    if job.state is JobState.QUEUED and job.job_position is not None:
        parts.append(f"position {job.job_position}")
    if since is not None and not job.state.is_terminal:
        parts.append(f"for {duration_text((datetime.now(UTC) - since).total_seconds())}")
    return ", ".join(parts)


def _took(job: JobRow) -> str:
    if job.start_time is None:
        return ""
    return duration_text(((job.end_time or datetime.now(UTC)) - job.start_time).total_seconds())


def _image(job: JobRow) -> str:
    """Return what a job runs: an image, or the module of its packages."""
    config = job.training_input.master_config
    return (config.image_uri if config else None) or job.training_input.python_module or ""


def _pool(pool: PoolView) -> str:
    """Return what a pool of replicas runs: ``2 x n1-standard-4, IMAGE COMMAND``."""
    gpus = f" + {pool.accelerator_count} x {pool.accelerator}" if pool.accelerator_count else ""
    words = " ".join((pool.image, *pool.command, *pool.args))
    return f"{pool.count} x {pool.machine_type}{gpus}, {words}"


def _severity_style(severity: Severity) -> str:
    if severity.number >= Severity.ERROR.number:
        return "bold red"
    return "yellow" if severity is Severity.WARNING else "green" if severity is Severity.INFO else ""
