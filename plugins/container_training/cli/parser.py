"""The command line's commands; each module here adds its own and says what runs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from container_training.cli import applying, migrate, orphans, plan


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run one command and return its exit status.

    :raises SystemExit: status 2, the arguments are wrong; status 0, help was asked for.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    # As gcloud reads it: what follows the first -- is the trainer's.
    end = words.index("--") if "--" in words else len(words)
    options = build_parser().parse_args(words[:end])
    options.trainer_args = words[end + 1 :]
    return int(options.run(options))


def build_parser() -> argparse.ArgumentParser:
    """Return the parser; its result has ``run``, a function from the options to the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m container_training", description="Training in custom containers, from a command line."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    plan.add_command(commands)
    applying.add_command(commands)
    migrate.add_command(commands)
    orphans.add_command(commands)
    return parser
