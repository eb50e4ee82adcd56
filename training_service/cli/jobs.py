"""``jobs list | describe | logs | cancel``: a person's view of the service's jobs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from training_api.clients.fleet import OpsClient
from training_api.clients.training import TrainingClient
from training_api.cloud_logging import Severity
from training_api.command_line import connection
from training_api.command_line.outcome import ExitStatus, run_command
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.ml_v1.job_rows import JobDetail
from training_api.fleet.wire import MAX_SEARCH_PAGE, SearchJobsRequest
from training_api.states import JobState
from training_service.cli.job_screen import JobScreen
from training_service.cli.waiting import JobWait, LogReader

_JOB_HELP = "id, or resource name like projects/P/locations/L/customJobs/ID; also that of its pipeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A command: what it was given, whom it asks, and where it writes."""

    options: argparse.Namespace
    ops: OpsClient
    training: TrainingClient
    screen: JobScreen


_Command = Callable[[_Asked], ExitStatus]


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
    listing.add_argument(
        "--limit", type=_positive, default=50, help="how many at most, up to 10,000; default 50"
    )

    _add(own, "describe", _describe, "show one job").add_argument("job", metavar="JOB", help=_JOB_HELP)

    logs = _add(own, "logs", _logs, "show a job's log")
    logs.add_argument("job", metavar="JOB", help=_JOB_HELP)
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
    cancel.add_argument("job", metavar="JOB", help=_JOB_HELP)
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
    with connection.client_of(options) as training, connection.ops_client_of(options) as ops:
        screen = JobScreen(as_json=options.json)
        return command(_Asked(options=options, ops=ops, training=training, screen=screen))


def _list(asked: _Asked) -> ExitStatus:
    options, screen = asked.options, asked.screen
    states = " OR ".join(f"state={state}" for state in options.state or [])
    wanted = " AND ".join(f"({part})" for part in (options.filter, states) if part)
    found = asked.ops.search_jobs(
        SearchJobsRequest(filter=wanted, page_size=min(options.limit, MAX_SEARCH_PAGE))
    )
    if screen.as_json:
        screen.show_json(found.to_wire())
    elif found.jobs:
        screen.show_jobs(found.jobs)
    else:
        screen.say("no jobs")
    if found.next_page_token:
        screen.say(f"there are more than {len(found.jobs)}; --limit shows more of them")
    return ExitStatus.DONE


def _describe(asked: _Asked) -> ExitStatus:
    found = asked.ops.job(asked.options.job)
    if asked.screen.as_json:
        asked.screen.show_json(_document(asked, found))
    else:
        asked.screen.show_job(found)
    return ExitStatus.DONE


def _logs(asked: _Asked) -> ExitStatus:
    options, screen = asked.options, asked.screen
    # An unknown job has no lines, and would look like a silent one.
    job_id = asked.ops.job(options.job).job.job_id
    reader = LogReader(asked.training, screen, job_id, options.task, options.severity)

    def show_new() -> None:
        reader.show_new()
        sys.stdout.flush()

    if not options.follow:
        show_new()
        return ExitStatus.DONE
    job = JobWait(asked.ops, screen, job_id).until_ended(show_new)
    return ExitStatus.DONE if job.state is JobState.SUCCEEDED else ExitStatus.JOB_ENDED_OTHERWISE


def _cancel(asked: _Asked) -> ExitStatus:
    screen = asked.screen
    job_id = asked.ops.job(asked.options.job).job.job_id
    asked.ops.cancel_job(job_id)
    status = ExitStatus.DONE
    if asked.options.wait:
        job = JobWait(asked.ops, screen, job_id).until_ended()
        if job.state is not JobState.CANCELLED:
            status = ExitStatus.JOB_ENDED_OTHERWISE
    found = asked.ops.job(job_id)
    if screen.as_json:
        screen.show_json(_document(asked, found))
    else:
        screen.say(f"{job_id} is {found.job.state.value}")
    return status


def _document(asked: _Asked, found: JobDetail) -> dict[str, Any]:
    """Return a job as scripts read it: the resource of ml.v1, else what the ops API has."""
    if found.job.dialect == ML_V1.name:
        return asked.training.get_job(found.job.job_id).to_wire()
    return found.to_wire()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
