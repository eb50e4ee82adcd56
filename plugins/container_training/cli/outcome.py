"""How a command ends: exit statuses, and errors as one message that says what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import IntEnum

from training_api.errors import InvalidJobSpec, PlanIsStale, TrainingError


class ExitStatus(IntEnum):
    """Exit statuses of all commands; documented in docs/plan.md."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    STALE = 4


class UsageError(Exception):
    """The command line, or what the environment adds to it, is incomplete or wrong."""


def run_command(command: Callable[[], int]) -> int:
    """Return the exit status of ``command``; its errors become a message on standard error."""
    try:
        return command()
    except UsageError as error:
        return _say(str(error), ExitStatus.USAGE)
    except PlanIsStale as error:
        return _say(str(error), ExitStatus.STALE)
    except InvalidJobSpec as error:
        return _say(
            "\n  ".join(f"{each.field}: {each.description}" for each in error.violations), ExitStatus.ERROR
        )
    except TrainingError as error:
        return _say(str(error), ExitStatus.ERROR)
    except OSError as error:
        return _say(f"{error.filename or 'a file'}: {error.strerror or error}", ExitStatus.ERROR)


def _say(message: str, status: ExitStatus) -> ExitStatus:
    sys.stderr.write(f"error: {message}\n")
    return status
