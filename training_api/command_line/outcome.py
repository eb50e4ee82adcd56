"""How a command ends: exit statuses, and errors as one message that says what to do."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import IntEnum

from training_api.errors import InvalidJobSpec, PlanIsStale, TrainingError


class ExitStatus(IntEnum):
    """Exit statuses of all commands; documented in docs/cli.md and docs/plan.md."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    JOB_ENDED_OTHERWISE = 3
    STALE = 4
    INTERRUPTED = 130
    READER_GONE = 141


class UsageError(Exception):
    """The command line, or what the environment adds to it, is incomplete or wrong."""


def _no_advice(error: TrainingError) -> str:
    return ""


def run_command(command: Callable[[], int], advice: Callable[[TrainingError], str] = _no_advice) -> int:
    """
    Return the exit status of ``command``; its errors become a message on standard error.

    :param advice: returns what to do about an error; empty: the error says so itself.
    """
    try:
        status = command()
        sys.stdout.flush()
        return status
    except UsageError as error:
        return _fail(str(error), ExitStatus.USAGE)
    except PlanIsStale as error:
        return _fail(str(error), ExitStatus.STALE)
    except InvalidJobSpec as error:
        violations = (f"{each.field}: {each.description}" for each in error.violations)
        return _fail("\n  ".join(violations) or str(error), ExitStatus.ERROR)
    except TrainingError as error:
        return _fail("\n".join(filter(None, (str(error), advice(error)))), ExitStatus.ERROR)
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; jobs go on\n")
        return ExitStatus.INTERRUPTED
    except BrokenPipeError:
        # `jobs list | head`: as other programs do that a signal ends. What is buffered must not raise again
        # at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitStatus.READER_GONE
    except OSError as error:
        return _fail(f"{error.filename or 'a file'}: {error.strerror or error}", ExitStatus.ERROR)


def _fail(message: str, status: ExitStatus) -> ExitStatus:
    sys.stderr.write(f"error: {message}\n")
    return status
