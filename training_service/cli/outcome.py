"""How a command ends: exit statuses, and errors as one line that says what to do."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import IntEnum

from training_api.errors import AccessDenied, JobNotFound, TrainingError, TransportError


class ExitStatus(IntEnum):
    """Exit statuses of all commands; documented in docs/cli.md."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    JOB_ENDED_OTHERWISE = 3
    INTERRUPTED = 130
    READER_GONE = 141


class UsageError(Exception):
    """The command line, or what the environment adds to it, is incomplete or wrong."""


def run_command(command: Callable[[], int]) -> int:
    """Return the exit status of ``command``; its errors become a line on standard error."""
    try:
        status = command()
        sys.stdout.flush()
        return status
    except UsageError as error:
        return _say(str(error), ExitStatus.USAGE)
    except TrainingError as error:
        return _say(f"{error}{_advice(error)}", ExitStatus.ERROR)
    except KeyboardInterrupt:
        return _say("interrupted; jobs go on", ExitStatus.INTERRUPTED)
    except BrokenPipeError:
        # `jobs list | head`: as other programs do that a signal ends. What is buffered must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitStatus.READER_GONE


def _say(message: str, status: ExitStatus) -> ExitStatus:
    sys.stderr.write(f"error: {message}\n" if status is not ExitStatus.INTERRUPTED else f"\n{message}\n")
    return status


def _advice(error: TrainingError) -> str:
    match error:
        case TransportError():
            return "\nIs it up? `make serve` starts it; --endpoint or TRAINING_ENDPOINT names another."
        case AccessDenied():
            return "\nTRAINING_TOKEN is the bearer token of who asks; see docs/access.md."
        case JobNotFound():
            return "\n`jobs list` shows the jobs of the project; --project names another."
    return ""
