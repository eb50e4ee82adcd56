"""``plan``: shows what a training run would do, and changes nothing."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from container_training.cli.environment import apart_from_the_log, ensure_connection
from container_training.work.plan.plan import PlanInputs
from container_training.work.plan.text import plan_lines
from container_training.work.submission.job_fields import JOB_FIELDS
from training_api.command_line.outcome import ExitStatus, UsageError, run_command
from training_api.command_line.screen import Screen

#: Options that are fields of the job, and what they say.
_OPTIONS = {field.name: field.meaning for field in JOB_FIELDS if field.meaning}


def add_command(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser's ``commands``."""
    help_ = "show what a training run would do, and change nothing"
    parser = commands.add_parser(
        "plan",
        help=help_,
        description=help_,
        epilog="What follows -- takes the place of the job's arguments.",
    )
    parser.add_argument(
        "config", metavar="CONFIG", help="job file: YAML or JSON, any subset of the Job resource"
    )
    parser.add_argument("--job-id", help="default: that of the job file, else a new one")
    for name, meaning in _OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", help=meaning)
    parser.add_argument("--labels", action="append", default=[], metavar="KEY=VALUE", help="may be repeated")
    parser.add_argument("--set", type=_object, metavar="JSON", help="a Job resource laid over the job file")
    parser.add_argument("--context", metavar="DIR", help="build the master's image from this folder")
    parser.add_argument("--dockerfile", default="Dockerfile", help="within the folder")
    parser.add_argument(
        "--build-arg", action="append", default=[], metavar="NAME=VALUE", help="may be repeated"
    )
    parser.add_argument("--training-conn-id", default="training_default")
    parser.add_argument("--gcp-conn-id", default="google_cloud_default")
    parser.add_argument("--docker-conn-id", default="docker_default")
    parser.add_argument("--docker-url", help="the engine; default: DOCKER_HOST, else the local socket")
    parser.add_argument("--output", "-o", metavar="FILE", help="write the plan there too, for apply")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    parser.set_defaults(run=lambda options: run_command(lambda: _run(options)))


def _run(options: argparse.Namespace) -> ExitStatus:
    with apart_from_the_log():
        from container_training.runtime.planning import plan_sources
        from container_training.work.plan.planning import make_plan

        ensure_connection(options.training_conn_id)
        inputs = _inputs(options)
        with plan_sources(inputs) as sources:
            plan = make_plan(inputs, sources, datetime.now(UTC))
    screen = Screen(as_json=options.json)
    if options.output:
        Path(options.output).write_text(json.dumps(plan.to_json(), indent=2) + "\n", encoding="utf-8")
        screen.say(f"the plan is in {options.output}")
    if screen.as_json:
        screen.show_json(plan.to_json())
    else:
        screen.show_lines(plan_lines(plan))
    return ExitStatus.DONE


def _inputs(options: argparse.Namespace) -> PlanInputs:
    from container_training.hooks.image import full_image_name
    from container_training.runtime.planning import planned_build_args

    fields = {name: getattr(options, name) for name in _OPTIONS}
    if options.image:
        fields["image"] = full_image_name(options.image, options.training_conn_id)
    context_dir = str(Path(options.context).absolute()) if options.context else None
    given = dict(_pair("--build-arg", text) for text in options.build_arg)
    labels = dict(_pair("--labels", pair) for text in options.labels for pair in text.split(","))
    return PlanInputs.of(
        config_file=str(Path(options.config).absolute()),
        fields={**fields, "args": options.trainer_args, "labels": labels or None},
        job=options.set,
        job_id=options.job_id,
        context_dir=context_dir,
        dockerfile=options.dockerfile,
        build_args=planned_build_args(context_dir, options.dockerfile, given, options.training_conn_id),
        training_conn_id=options.training_conn_id,
        gcp_conn_id=options.gcp_conn_id,
        docker_conn_id=options.docker_conn_id,
        docker_url=options.docker_url,
    )


def _pair(option: str, text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise UsageError(f"{option} must be NAME=VALUE, got {text!r}")
    return name, value


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"must be a JSON object, got {text!r}")
    return value
