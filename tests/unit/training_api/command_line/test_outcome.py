"""How a command ends: each kind of error has its status, and one message on standard error."""

from __future__ import annotations

import pytest

from training_api.command_line.outcome import ExitStatus, UsageError, run_command
from training_api.errors import FieldViolation, InvalidJobSpec, PlanIsStale, TrainingError


def raising(error: BaseException) -> int:
    raise error


def test_a_command_that_returns_ends_with_its_own_status() -> None:
    assert run_command(lambda: ExitStatus.JOB_ENDED_OTHERWISE) == 3


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (UsageError("which project?"), 2, "error: which project?\n"),
        (PlanIsStale(["the image has changed"]), 4, "error: "),
        (TrainingError("no answer"), 1, "error: no answer\n"),
        (FileNotFoundError(2, "No such file or directory", "job.yaml"), 1, "error: job.yaml: No such file"),
        (OSError("no room"), 1, "error: a file: no room\n"),
        (KeyboardInterrupt(), 130, "\ninterrupted; jobs go on\n"),
    ],
)
def test_an_error_is_a_message_and_a_status(
    error: BaseException, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(lambda: raising(error)) == status

    printed = capsys.readouterr()
    assert printed.err.startswith(message)
    assert printed.out == ""


def test_all_broken_rules_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    broken = [
        FieldViolation(field="region", description="must be set"),
        FieldViolation(field="args", description="?"),
    ]

    assert run_command(lambda: raising(InvalidJobSpec(broken))) == ExitStatus.ERROR

    assert capsys.readouterr().err == "error: region: must be set\n  args: ?\n"


def test_the_advice_follows_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    status = run_command(lambda: raising(TrainingError("no such job")), lambda error: f"try another: {error}")

    assert status == ExitStatus.ERROR
    assert capsys.readouterr().err == "error: no such job\ntry another: no such job\n"


def test_an_unknown_error_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        run_command(lambda: 1 // 0)
