"""The command line's commands; each module here adds its own and says what runs it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from training_service.cli import (
    account_key,
    backup,
    jobs,
    purge,
    registry_auth,
    registry_token,
    secret,
    serve,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run one command and return its exit status.

    :raises SystemExit: status 2, the arguments are wrong; status 0, help was asked for.
    """
    options = build_parser().parse_args(arguments)
    return int(options.run(options))


def build_parser() -> argparse.ArgumentParser:
    """Return the parser; its result has ``run``, a function from the options to the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m training_service", description="AI Platform Training on one machine."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    serve.add_command(commands)
    backup.add_command(commands)
    jobs.add_command(commands)
    registry_auth.add_command(commands)
    registry_token.add_command(commands)
    account_key.add_command(commands)
    purge.add_command(commands)
    secret.add_command(commands)
    return parser
