"""``registry-token``: prints a token for one repository of the service's registry."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from training_api.command_line.outcome import run_command

_ACTIONS = ("pull", "push")


def add_command(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "registry-token",
        help="print a token of an hour to pull from and push to one repository of the service's registry",
    )
    parser.add_argument("repository", help="PROJECT/NAME, without the registry's host")
    parser.add_argument(
        "--key-dir", type=Path, required=True, help="folder of the key (setting TRAINING_KEY_DIR)"
    )
    parser.set_defaults(run=lambda options: run_command(lambda: _run(options)))


def _run(options: argparse.Namespace) -> int:
    from training_service.access.registry_tokens import own_token
    from training_service.access.signing_key import SigningKey

    print(own_token(SigningKey.load_or_make(options.key_dir.absolute()), options.repository, _ACTIONS))
    return 0
