"""Which service a command asks, under which project and with which token."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from training_api.clients.fleet import OpsClient
from training_api.clients.training import TrainingClient
from training_api.command_line.outcome import UsageError
from training_api.errors import AccessDenied, JobNotFound, TrainingError, TransportError

DEFAULT_ENDPOINT = "http://127.0.0.1:8470"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say whom to ask."""
    parser.add_argument("--project", metavar="PROJECT", help="default: GOOGLE_CLOUD_PROJECT")
    parser.add_argument(
        "--endpoint", metavar="URL", help=f"of the service; default: TRAINING_ENDPOINT, or {DEFAULT_ENDPOINT}"
    )


def client_of(options: argparse.Namespace) -> TrainingClient:
    """
    Return a client.

    :raises UsageError: no project was named, the endpoint is no URL, or the token's file cannot be read.
    """
    endpoint, project, headers = _address(options)
    return TrainingClient(endpoint, project, headers=headers)


def ops_client_of(options: argparse.Namespace) -> OpsClient:
    """Return a client that reads jobs of all dialects. Raises as ``client_of`` does."""
    endpoint, project, headers = _address(options)
    return OpsClient(endpoint, project, headers=headers)


def _address(options: argparse.Namespace) -> tuple[str, str, dict[str, str] | None]:
    """Return the endpoint, the project, and the headers of requests."""
    project = options.project or os.environ.get("GOOGLE_CLOUD_PROJECT")
    if not project:
        raise UsageError("which project? Give --project, or set GOOGLE_CLOUD_PROJECT")
    endpoint = options.endpoint or os.environ.get("TRAINING_ENDPOINT") or DEFAULT_ENDPOINT
    if not endpoint.startswith(("http://", "https://")):
        raise UsageError(f"the endpoint must be a URL like {DEFAULT_ENDPOINT}, got {endpoint!r}")
    token = token_of_environment()
    return endpoint, project, {"Authorization": f"Bearer {token}"} if token else None


def token_of_environment() -> str | None:
    """
    Return the bearer token, which is never an argument: ``TRAINING_TOKEN``, else the file's.

    ``TRAINING_TOKEN_FILE`` names the file.

    :raises UsageError: the file cannot be read.
    """
    if token := os.environ.get("TRAINING_TOKEN"):
        return token
    path = os.environ.get("TRAINING_TOKEN_FILE")
    try:
        return Path(path).read_text("ascii").strip() if path else None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"TRAINING_TOKEN_FILE cannot be read: {error}") from None


def advice(error: TrainingError) -> str:
    """Return what to do about an error of the service, in words of these options; may be empty."""
    match error:
        case TransportError():
            return "Is it up? `make serve` starts it; --endpoint or TRAINING_ENDPOINT names another."
        case AccessDenied():
            return "TRAINING_TOKEN, or the file TRAINING_TOKEN_FILE, has the token of who asks; see docs/access.md."
        case JobNotFound():
            return "`jobs list` shows the jobs of the project; --project names another."
    return ""
