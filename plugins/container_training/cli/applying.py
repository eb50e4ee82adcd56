"""``apply``: carries out a plan, unless it is stale."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from container_training.cli.environment import apart_from_the_log, ensure_connection
from container_training.work.plan.plan import read_plan
from training_api.command_line.outcome import ExitStatus, run_command
from training_api.command_line.screen import Screen


def add_command(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser's ``commands``."""
    help_ = "build, push, grant and submit what a plan says; status 4 if it is stale"
    parser = commands.add_parser("apply", help=help_, description=help_)
    parser.add_argument("plan", metavar="PLAN", help="file that plan --output wrote")
    parser.add_argument("--json", action="store_true", help="print the job as JSON")
    parser.set_defaults(run=lambda options: run_command(lambda: _run(options)))


def _run(options: argparse.Namespace) -> ExitStatus:
    plan = read_plan(Path(options.plan).read_text(encoding="utf-8"), options.plan)
    screen = Screen(as_json=options.json)
    with apart_from_the_log():
        from container_training.runtime.planning import plan_sources
        from container_training.work.plan.run import apply_plan

        ensure_connection(plan.inputs.training_conn_id)
        with plan_sources(plan.inputs) as sources:
            job = apply_plan(plan, sources, datetime.now(UTC), screen.say)
    if screen.as_json:
        screen.show_json(job.to_wire())
    else:
        screen.show_lines([job.job_id or ""])
    return ExitStatus.DONE
