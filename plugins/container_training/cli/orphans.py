"""``orphans``: lists the jobs that no Airflow task tracks any more, and cancels them."""

from __future__ import annotations

import argparse
import os
from datetime import timedelta
from typing import Any

from container_training.work.orphans.airflow_api import AirflowApiClient
from container_training.work.orphans.orphans import DEFAULT_GRACE, Orphan, Verdict
from container_training.work.orphans.search import OrphanSearch, live_jobs
from training_api.command_line import connection
from training_api.command_line.cells import moment_text, printable, state_text
from training_api.command_line.outcome import ExitStatus, UsageError, run_command
from training_api.command_line.screen import Screen, table

DEFAULT_AIRFLOW = "http://127.0.0.1:8080"


def add_command(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser's ``commands``."""
    text = "list jobs that no task of Airflow looks after any more; cancel them"
    parser = commands.add_parser("orphans", help=text, description=text)
    connection.add_options(parser)
    parser.add_argument("--airflow", metavar="URL", help=f"default: AIRFLOW_URL, or {DEFAULT_AIRFLOW}")
    parser.add_argument(
        "--grace",
        metavar="SECONDS",
        type=float,
        default=DEFAULT_GRACE.total_seconds(),
        help="leave younger jobs alone; default %(default).0f",
    )
    parser.add_argument("--cancel", action="store_true", help="cancel those of this Airflow")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=lambda options: run_command(lambda: _run(options), connection.advice))


def _run(options: argparse.Namespace) -> int:
    with connection.ops_client_of(options) as ops, _airflow(options) as airflow:
        found = OrphanSearch(airflow, grace=timedelta(seconds=options.grace)).among(live_jobs(ops))
        cancelled = {
            orphan.job.job_id or "" for orphan in found if options.cancel and orphan.verdict is Verdict.ORPHAN
        }
        for job_id in cancelled:
            ops.cancel_job(job_id)
    _show(found, cancelled, Screen(as_json=options.json))
    return ExitStatus.DONE


def _airflow(options: argparse.Namespace) -> AirflowApiClient:
    """Return a client; its credentials are in the environment, never an argument."""
    url = options.airflow or os.environ.get("AIRFLOW_URL") or DEFAULT_AIRFLOW
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"Airflow's address must be a URL like {DEFAULT_AIRFLOW}, got {url!r}")
    token, user, password = (
        os.environ.get(name, "") for name in ("AIRFLOW_TOKEN", "AIRFLOW_USER", "AIRFLOW_PASSWORD")
    )
    if not token and not (user and password):
        raise UsageError("who asks Airflow? Set AIRFLOW_TOKEN, or AIRFLOW_USER and AIRFLOW_PASSWORD")
    return AirflowApiClient(url, username=user, password=password, token=token)


def _show(found: list[Orphan], cancelled: set[str], screen: Screen) -> None:
    if screen.as_json:
        screen.show_json({"orphans": [_json(orphan, cancelled) for orphan in found]})
        return
    if not found:
        screen.say("no orphans: every job that has not ended has a task that waits for it")
        return
    rows = table("JOB_ID", "STATE", "CREATED", "VERDICT", "DONE", last="WHY")
    for orphan in found:
        job = orphan.job
        rows.add_row(
            job.job_id,
            state_text(job.state),
            moment_text(job.create_time),
            orphan.verdict.value,
            "cancelled" if job.job_id in cancelled else "left",
            printable(orphan.why),
        )
    screen.out.print(rows)


def _json(orphan: Orphan, cancelled: set[str]) -> dict[str, Any]:
    return {
        "jobId": orphan.job.job_id,
        "state": orphan.job.state,
        "verdict": orphan.verdict,
        "why": orphan.why,
        "cancelled": orphan.job.job_id in cancelled,
    }
