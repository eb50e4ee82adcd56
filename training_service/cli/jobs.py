"""``jobs list | describe | logs | cancel``: a person's view of the service's jobs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from training_api.clients.training import TrainingClient
from training_api.cloud_logging import Severity
from training_api.command_line import connection
from training_api.command_line.outcome import ExitStatus, run_command
from training_api.dialects.ml_v1.resources import Job, ListJobsResponse
from training_api.states import JobState
from training_service.cli.job_screen import JobScreen
from training_service.cli.waiting import JobWait, LogReader

_MAX_PAGE_SIZE = 100
_Command = Callable[[argparse.Namespace, TrainingClient, JobScreen], ExitStatus]


def add_command(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its own commands to the parser's ``commands``."""
    parser = commands.add_parser("jobs", help="list, describe and cancel jobs; read their logs")
    own = parser.add_subparsers(dest="jobs_command", metavar="COMMAND", required=True)

    listing = _add(own, "list", _list, "list jobs, newest first")
    listing.add_argument("--filter", default="", help="as of jobs.list, like 'labels.team=\"vision\"'")
    listing.add_argument(
        "--state",
        type=str.upper,
        action="append",
        choices=[state.value for state in JobState],
        help="may be given several times",
    )
    listing.add_argument("--limit", type=_positive, default=50, help="how many at most; default 50")

    _add(own, "describe", _describe, "show one job").add_argument("job", metavar="JOB")

    logs = _add(own, "logs", _logs, "show a job's log")
    logs.add_argument("job", metavar="JOB")
    logs.add_argument(
        "--follow", "-f", action="store_true", help="until the job ends; status 3 if it did not succeed"
    )
    logs.add_argument(
        "--task", default="", metavar="TASK", help="one replica, like master-replica-0, or service"
    )
    logs.add_argument(
        "--severity",
        type=str.upper,
        default="",
        choices=[severity.value for severity in Severity],
        help="the least severe that is shown",
    )

    cancel = _add(own, "cancel", _cancel, "ask a job to end")
    cancel.add_argument("job", metavar="JOB")
    cancel.add_argument(
        "--wait", action="store_true", help="until it has ended; status 3 if not as CANCELLED"
    )


def _add(
    commands: argparse._SubParsersAction[Any], name: str, command: _Command, help_: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_, description=help_)
    connection.add_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=lambda options: run_command(lambda: _run(command, options), connection.advice))
    return parser


def _run(command: _Command, options: argparse.Namespace) -> int:
    with connection.client_of(options) as client:
        return command(options, client, JobScreen(as_json=options.json))


def _list(options: argparse.Namespace, client: TrainingClient, screen: JobScreen) -> ExitStatus:
    states = " OR ".join(f"state={state}" for state in options.state or [])
    wanted = " AND ".join(f"({part})" for part in (options.filter, states) if part)
    jobs: list[Job] = []
    token = ""
    while len(jobs) < options.limit:
        page = client.list_jobs(wanted, min(options.limit - len(jobs), _MAX_PAGE_SIZE), token)
        jobs += page.jobs or []
        token = page.next_page_token or ""
        if not token:
            break
    if screen.as_json:
        screen.show_json(ListJobsResponse(jobs=jobs).to_wire())
    elif jobs:
        screen.show_jobs(jobs)
    else:
        screen.say("no jobs")
    if token:
        screen.say(f"there are more than {options.limit}; --limit shows more of them")
    return ExitStatus.DONE


def _describe(options: argparse.Namespace, client: TrainingClient, screen: JobScreen) -> ExitStatus:
    _show(client.get_job(options.job), screen)
    return ExitStatus.DONE


def _logs(options: argparse.Namespace, client: TrainingClient, screen: JobScreen) -> ExitStatus:
    client.get_job(options.job)  # an unknown job has no lines, and would look like a silent one
    reader = LogReader(client, screen, options.job, options.task, options.severity)

    def show_new() -> None:
        reader.show_new()
        sys.stdout.flush()

    if not options.follow:
        show_new()
        return ExitStatus.DONE
    job = JobWait(client, screen, options.job).until_ended(show_new)
    return ExitStatus.DONE if job.state is JobState.SUCCEEDED else ExitStatus.JOB_ENDED_OTHERWISE


def _cancel(options: argparse.Namespace, client: TrainingClient, screen: JobScreen) -> ExitStatus:
    client.cancel_job(options.job)
    status = ExitStatus.DONE
    if options.wait:
        job = JobWait(client, screen, options.job).until_ended()
        if job.state is not JobState.CANCELLED:
            status = ExitStatus.JOB_ENDED_OTHERWISE
    else:
        job = client.get_job(options.job)
    if screen.as_json:
        screen.show_json(job.to_wire())
    else:
        screen.say(f"{options.job} is {job.state.value if job.state else 'unknown'}")
    return status


def _show(job: Job, screen: JobScreen) -> None:
    if screen.as_json:
        screen.show_json(job.to_wire())
    else:
        screen.show_job(job)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
