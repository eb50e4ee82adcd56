"""``registry-auth``: makes the service's key, and prints how a registry is told to trust it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from training_api.command_line.outcome import run_command


def add_command(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command to the parser's ``commands``."""
    parser = commands.add_parser(
        "registry-auth",
        help="make the service's key unless it is there, and print the auth section of a registry's configuration",
    )
    parser.add_argument(
        "--realm", required=True, help="URL of the service's /registry/token, as clients reach it"
    )
    parser.add_argument(
        "--key-dir", type=Path, required=True, help="folder of the key (setting TRAINING_KEY_DIR)"
    )
    parser.set_defaults(run=lambda options: run_command(lambda: _run(options)))


def _run(options: argparse.Namespace) -> int:
    from training_service.access.registry_tokens import registry_configuration
    from training_service.access.signing_key import CERTIFICATE_FILE, SigningKey

    folder = options.key_dir.absolute()
    SigningKey.load_or_make(folder)
    print(json.dumps(registry_configuration(options.realm, str(folder / CERTIFICATE_FILE))))
    return 0
