"""What a person sees: tables, colours and states; plain text where no terminal is."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from container_training.work.orphans.orphans import Orphan
from training_api.dialects.ml_v1.log_wire import LogEntry, Severity
from training_api.dialects.ml_v1.resources import Job, WireModel
from training_api.job.tuning.trials import progress_line, study_result
from training_api.states import JobState
from training_service.cli.styles import STATE_STYLES, duration_text
from training_service.cli.trials_table import trials_table

#: Wide enough that no pipe ever gets a cut or folded line.
_PIPE_WIDTH = 100_000
#: What a trainer writes must not steer the reader's terminal: all control characters but tab and line feed.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Screen:
    """
    Standard output for results, standard error for the rest; rich follows ``NO_COLOR`` and ``TERM``.

    :param as_json: results as JSON.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.out = _console(stderr=False)
        self.err = _console(stderr=True)

    @property
    def progress(self) -> Console:
        """Where progress is drawn: with the results on one terminal, so that the two do not disturb each other."""
        return self.out if self.out.is_terminal else self.err

    def say(self, text: str) -> None:
        """Tell something that is no result."""
        self.err.print(text, markup=False, highlight=False, soft_wrap=True)

    def show_document(self, document: WireModel) -> None:
        """Print one JSON document."""
        sys.stdout.write(json.dumps(document.to_wire(), indent=2, ensure_ascii=False) + "\n")

    def show_jobs(self, jobs: Iterable[Job]) -> None:
        """Print a table, one job a row."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("JOB_ID", "STATE", "CREATED", "TOOK"):
            table.add_column(column, no_wrap=True)
        table.add_column("IMAGE", overflow="ellipsis", no_wrap=True)
        for job in jobs:
            table.add_row(job.job_id, _state(job), _moment(job.create_time), _took(job), _image(job))
        self.out.print(table)

    def show_orphans(self, orphans: Iterable[Orphan], cancelled: Collection[str]) -> None:
        """Print a table, one job without a live owner a row."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("JOB_ID", "STATE", "CREATED", "VERDICT", "DONE"):
            table.add_column(column, no_wrap=True)
        table.add_column("WHY", overflow="fold")
        for orphan in orphans:
            job = orphan.job
            done = "cancelled" if job.job_id in cancelled else "left"
            table.add_row(
                job.job_id,
                _state(job),
                _moment(job.create_time),
                orphan.verdict.value,
                done,
                _printable(orphan.why),
            )
        self.out.print(table)

    def show_job(self, job: Job) -> None:
        """Print one job, one field a row; fields that it has not are left out."""
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        training = job.training_input
        study = study_result(job, datetime.now(UTC))
        rows: dict[str, str | Text | None] = {
            "job": job.job_id,
            "state": _state(job),
            "error": Text(_printable(job.error_message), "red") if job.error_message else None,
            "position": str(job.job_position) if job.job_position is not None else None,
            "created": _moment(job.create_time),
            "started": _moment(job.start_time),
            "ended": _moment(job.end_time),
            "took": _took(job),
            "trials": progress_line(study).removeprefix("trials: ") if study else None,
            "image": _image(job),
            "arguments": " ".join(training.args or []) if training else None,
            "job directory": training.job_dir if training else None,
            "labels": ", ".join(f"{key}={value}" for key, value in (job.labels or {}).items()),
        }
        for name, value in rows.items():
            if value:
                table.add_row(name, Text(_printable(value)) if isinstance(value, str) else value)
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
        line.append(f"{_moment(entry.timestamp)} ", style="dim")
        line.append(f"{entry.severity.value:<8} ", style=_severity_style(entry.severity))
        line.append(f"{entry.task_name}  ", style="dim")
        message = entry.message or json.dumps(entry.json_payload or "", ensure_ascii=False)
        line.append(_printable(message) if self.out.is_terminal else message)
        self.out.print(line, soft_wrap=True)


def describe_progress(job: Job) -> str:
    """Return ``QUEUED, position 2, for 0:00:10``: what a wait shows."""
    since = job.start_time if job.state is JobState.RUNNING else job.create_time
    parts = [job.state.value if job.state else "unknown"]
    if job.state is JobState.QUEUED and job.job_position is not None:
        parts.append(f"position {job.job_position}")
    if since is not None and not (job.state and job.state.is_terminal):
        parts.append(f"for {duration_text((datetime.now(UTC) - since).total_seconds())}")
    return ", ".join(parts)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    return (
        console
        if console.is_terminal
        else Console(stderr=stderr, highlight=False, markup=False, emoji=False, width=_PIPE_WIDTH)
    )


def _state(job: Job) -> Text:
    return Text(job.state.value if job.state else "", style=STATE_STYLES.get(job.state, ""))


def _moment(moment: datetime | None) -> str:
    """In the reader's own time zone, as gcloud shows it."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def _took(job: Job) -> str:
    if job.start_time is None:
        return ""
    return duration_text(((job.end_time or datetime.now(UTC)) - job.start_time).total_seconds())


def _image(job: Job) -> str:
    training = job.training_input
    config = training.master_config if training else None
    return (config.image_uri if config else None) or (training.python_module if training else None) or ""


def _severity_style(severity: Severity) -> str:
    if severity.number >= Severity.ERROR.number:
        return "bold red"
    return "yellow" if severity is Severity.WARNING else "green" if severity is Severity.INFO else ""


def _printable(text: str) -> str:
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
