"""``account-key``: makes the key file of a service account, for Google's libraries."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from training_api.command_line.outcome import run_command


def add_command(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser's ``commands``."""
    help_ = (
        "make the key file of a service account unless it is there, and print its public key, "
        "which the tokens file has as public_key"
    )
    parser = commands.add_parser("account-key", help=help_, description=help_)
    parser.add_argument("account", metavar="EMAIL", help="NAME@PROJECT.iam.gserviceaccount.com")
    parser.add_argument(
        "--token-uri", required=True, metavar="URL", help="URL of the service's /token, as clients reach it"
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="the key file; mode 0600")
    parser.set_defaults(run=lambda options: run_command(lambda: _run(options)))


def _run(options: argparse.Namespace) -> int:
    from training_service.access.key_file import make_key_file, public_key_of

    if not options.output.exists():
        make_key_file(options.output, options.account, options.token_uri)
    print(public_key_of(options.output), end="")
    return 0
