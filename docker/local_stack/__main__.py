"""``python -m local_stack COMMAND``: what the Makefile calls."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from pydantic import ValidationError

from local_stack.demo import run_demo
from local_stack.environment import print_environment
from local_stack.errors import LocalStackError
from local_stack.processes.shared_locks import engine_in_use
from local_stack.production import Production
from local_stack.settings import ALL_PARTS, SERVE_PARTS, Part, StackSettings
from local_stack.stack import LocalStack
from local_stack.status import print_status, swarm_machines, what_stays
from local_stack.test_bed import bring_up_test_bed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; errors are printed as one message, without a traceback."""
    options = _parser().parse_args(arguments)
    try:
        stack = LocalStack(StackSettings())
        status: int = options.run(stack, options)
    except LocalStackError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except ValidationError as error:
        for problem in error.errors():
            name = ".".join(str(part) for part in problem["loc"])
            print(
                f"error: LOCAL_STACK_{name.upper()}: {problem['msg']}, got {problem['input']!r}",
                file=sys.stderr,
            )
        return 1
    except KeyboardInterrupt:
        print(
            "interrupted; what is up stays up (`make down` stops it, or `make compose-down`)", file=sys.stderr
        )
        return 130
    return status


def _serve(stack: LocalStack, _options: argparse.Namespace) -> int:
    stack.up(SERVE_PARTS)
    print_status(stack)
    print('\nnext: eval "$(make -s env)"')
    return 0


def _up(stack: LocalStack, _options: argparse.Namespace) -> int:
    stack.up(ALL_PARTS)
    print_status(stack)
    return 0


def _demo(stack: LocalStack, _options: argparse.Namespace) -> int:
    return run_demo(stack)


def _env(stack: LocalStack, _options: argparse.Namespace) -> int:
    print_environment(stack)
    return 0


def _status(stack: LocalStack, _options: argparse.Namespace) -> int:
    return 0 if print_status(stack) else 1


def _down(stack: LocalStack, _options: argparse.Namespace) -> int:
    machines = swarm_machines(stack)
    print("stopped" if stack.down() else "nothing was running")
    for line in what_stays(machines, has_engine=bool(machines) and stack.engine.is_healthy()):
        print(line)
    return 0


def _join_command(stack: LocalStack, _options: argparse.Namespace) -> int:
    print(stack.machines.join_command().script())
    minutes = stack.settings.join_minutes
    print(
        f"\nnext: paste this into a shell of root on the other machine; it is good once, within {minutes} minutes",
        file=sys.stderr,
    )
    return 0


def _compose_up(stack: LocalStack, _options: argparse.Namespace) -> int:
    production = Production(stack)
    production.up()
    print(f"{production.summary()}\n\nnext: docs/compose.md; `make compose-down` stops it")
    return 0


def _compose_down(stack: LocalStack, options: argparse.Namespace) -> int:
    Production(stack).down(volumes=options.volumes)
    return 0


def _test_bed(stack: LocalStack, options: argparse.Namespace) -> int:
    before = stack.running()
    with engine_in_use(stack.settings.engine_url) as is_only_user:
        try:
            bring_up_test_bed(stack)
            if not options.command:
                return 0
            sys.stdout.flush()
            environment = os.environ | {"DOCKER_HOST": stack.settings.engine_url}
            return subprocess.run(options.command, check=False, env=environment).returncode
        finally:
            # With a command, nothing stays that was not there before.
            started = stack.running() - before if options.command else frozenset()
            if Part.ENGINE in started and not is_only_user():
                print("other tests use the engine, so it stays up; `make down` stops it", file=sys.stderr)
                started -= {Part.ENGINE}
            if started:
                stack.down(started)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m local_stack", description="The local stack of this project."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (
        ("serve", _serve, "bring up everything that a training job needs"),
        ("up", _up, "bring up everything, Airflow too"),
        ("demo", _demo, "bring up everything, run the DAG train_digits, print its result"),
        ("env", _env, "print export lines for clients of the stack that runs"),
        ("status", _status, "show what runs, where and since when"),
        ("join-command", _join_command, "print what another machine runs to take part; good once"),
        ("down", _down, "stop what this stack started"),
        ("compose-up", _compose_up, "start the stack of docker/compose.yaml"),
    ):
        commands.add_parser(name, help=text, description=text).set_defaults(run=run)
    text = "stop the stack of docker/compose.yaml; its volumes stay"
    compose_down = commands.add_parser("compose-down", help=text, description=text)
    compose_down.add_argument("--volumes", action="store_true", help="remove the volumes, with all data")
    compose_down.set_defaults(run=_compose_down)
    text = "bring up what the tests need, run COMMAND, and stop what was started for it"
    test_bed = commands.add_parser("test-bed", help=text, description=text)
    test_bed.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    test_bed.set_defaults(run=_test_bed)
    return parser


if __name__ == "__main__":
    sys.exit(main())
