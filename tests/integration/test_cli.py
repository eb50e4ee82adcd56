"""
``python -m training_service jobs`` against a live service.

In a pipe, on a terminal, and with errors.
"""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from container_engines.memory.engine import Behaviour
from container_training.cli.parser import build_parser as airflow_side_parser
from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.support.bed.job_watch import until_state
from tests.support.docs_examples import ROOT, examples
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.states import JobState
from training_service.cli.parser import build_parser, main

PROJECT = "demo-project"
LINES = (
    "loss 0.5",
    '{"severity": "warning", "message": "slow", "step": 3}',
    "evil \x1b[2J",
    '{"severity": "error", "message": "no data"}',
)
#: How long a command may take to end on an idle machine.
END_SECONDS = 60.0


@pytest.fixture(params=[0])
def service(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LiveService]:
    """
    A service whose jobs run 1,000 virtual seconds and write ``LINES``.

    They end with the parameter's exit code.
    """
    with run_service(tmp_path, Behaviour(run_seconds=1000, lines=LINES, exit_code=request.param)) as service:
        yield service


@pytest.fixture
def environment(service: LiveService) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    return kept | {
        "TRAINING_ENDPOINT": service.endpoint,
        "GOOGLE_CLOUD_PROJECT": PROJECT,
        "TERM": "xterm",
        "COLUMNS": "120",
        "TZ": "UTC",
    }


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "training_service", "jobs", *arguments]


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


#: Runs ``jobs ...`` in this process, its output captured as a pipe would.
Run = Callable[..., Done]


@pytest.fixture
def run(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    def run(*arguments: str, **changes: str) -> Done:
        for name, value in (environment | changes).items():
            monkeypatch.setenv(name, value)
        try:
            status = main(["jobs", *arguments])
        except SystemExit as ended:  # argparse
            status = int(ended.code or 0)
        return Done(status, *capsys.readouterr())

    return run


def start(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    """Start with pipes."""
    return subprocess.Popen(
        command(*arguments),
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_on_terminal(environment: dict[str, str], *arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start on a terminal of its own; returns the process and our end of the terminal."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        command(*arguments),
        env=environment,
        cwd=ROOT,
        stdin=its,
        stdout=its,
        stderr=its,
        # Tests that a shell runs in the background inherit that Ctrl-C is ignored.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    os.close(its)
    return process, ours


def read_terminal(ours: int) -> str:
    """Return all that the program wrote until it ended."""
    written = b""
    while True:
        try:
            written += os.read(ours, 65536)
        except OSError:  # its end is closed
            os.close(ours)
            return written.decode()


def on_terminal(environment: dict[str, str], *arguments: str) -> tuple[int, str]:
    process, ours = start_on_terminal(environment, *arguments)
    written = read_terminal(ours)
    return process.wait(scaled(END_SECONDS)), written


def submit(client: TrainingClient, *job_ids: str, state: JobState | None = JobState.RUNNING) -> None:
    for job_id in job_ids:
        config = ReplicaConfig(image_uri=IMAGE)
        client.create_job(
            Job(job_id=job_id, labels={"team": "vision"}, training_input=TrainingInput(master_config=config))
        )
    for job_id in job_ids if state else ():
        until_state(client, job_id, state)


def until_logged(client: TrainingClient, job_id: str) -> None:
    """Wait until all lines of a job's trainer are stored, which follows its state."""
    query = job_log_filter(job_id, task_name="master-replica-0")
    wait_until(
        lambda: len(client.list_log_entries(query).entries or []) == len(LINES), f"the log of {job_id}"
    )


def test_list_in_a_pipe_is_a_plain_table(run: Run, client: TrainingClient) -> None:
    submit(client, "one", "two")

    done = run("list")

    assert (done.returncode, done.stderr) == (0, "")
    header, *rows = [line.split() for line in done.stdout.splitlines()]
    assert header == ["JOB_ID", "API", "STATE", "CREATED", "TOOK", "NAME", "IMAGE"]
    assert [(row[0], row[4], row[-1]) for row in rows] == [
        ("two", "RUNNING", IMAGE),
        ("one", "RUNNING", IMAGE),
    ]


def test_list_as_json_is_one_document_of_the_ops_api(run: Run, client: TrainingClient) -> None:
    submit(client, "one")

    done = run("list", "--json")

    (row,) = json.loads(done.stdout)["jobs"]
    assert (row["jobId"], row["dialect"], row["state"]) == ("one", "ml_v1", "RUNNING")
    assert json.loads(run("list", "--json", "--state", "failed").stdout)["jobs"] == []


def test_list_filters_and_says_when_there_are_more(run: Run, client: TrainingClient) -> None:
    submit(client, "one", "two", "three")

    some = run("list", "--limit", "2")
    chosen = run("list", "--state", "running", "--state", "QUEUED", "--filter", "jobId=one OR jobId=two")
    none = run("list", "--filter", 'labels.team="audio"')

    assert len(some.stdout.splitlines()) == 3
    assert "--limit" in some.stderr
    assert [line.split()[0] for line in chosen.stdout.splitlines()[1:]] == ["two", "one"]
    assert (none.stdout, none.stderr) == ("", "no jobs\n")


def test_terminal_has_colours_unless_told_otherwise(
    environment: dict[str, str], client: TrainingClient
) -> None:
    submit(client, "one")

    status, coloured = on_terminal(environment, "list")
    _, plain = on_terminal(environment | {"NO_COLOR": "1"}, "list")

    assert status == 0
    assert "\x1b[36mRUNNING" in coloured
    assert "RUNNING" in plain
    assert not re.search(r"\x1b\[[0-9;]*3\d", plain)


def test_describe_shows_a_job(run: Run, client: TrainingClient) -> None:
    submit(client, "one")

    done = run("describe", "one")
    document = run("describe", "one", "--json")

    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert (rows["state"].strip(), rows["labels"].strip()) == ("RUNNING", "team=vision")
    assert json.loads(document.stdout) == client.get_job("one").to_wire()


def test_log_in_a_pipe_is_as_the_trainer_wrote_it(run: Run, client: TrainingClient) -> None:
    submit(client, "one")
    until_logged(client, "one")

    done = run("logs", "one", "--task", "master-replica-0")

    assert done.returncode == 0
    assert [line.split(maxsplit=4)[2:] for line in done.stdout.splitlines()] == [
        ["INFO", "master-replica-0", "loss 0.5"],
        ["WARNING", "master-replica-0", "slow"],
        ["INFO", "master-replica-0", "evil \x1b[2J"],
        ["ERROR", "master-replica-0", "no data"],
    ]


def test_log_on_a_terminal_cannot_steer_it(environment: dict[str, str], client: TrainingClient) -> None:
    submit(client, "one")
    until_logged(client, "one")

    _, written = on_terminal(environment, "logs", "one")

    assert "evil \\x1b[2J" in written
    assert "\x1b[2J" not in written


def test_log_as_json_has_an_entry_a_line_and_can_be_filtered(run: Run, client: TrainingClient) -> None:
    submit(client, "one")
    until_logged(client, "one")

    done = run("logs", "one", "--task", "master-replica-0", "--severity", "warning", "--json")

    entries = [json.loads(line) for line in done.stdout.splitlines()]
    assert [entry["jsonPayload"] for entry in entries] == [
        {"message": "slow", "step": 3},
        {"message": "no data"},
    ]
    assert {entry["resource"]["labels"]["job_id"] for entry in entries} == {"one"}


@pytest.mark.parametrize(("service", "status"), [(0, 0), (3, 3)], indirect=["service"])
def test_following_ends_with_the_job_and_tells_how(
    environment: dict[str, str], client: TrainingClient, service: LiveService, status: int
) -> None:
    submit(client, "one")
    with start(environment, "logs", "one", "--follow") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "one is RUNNING\n"
        service.engine.advance(2000)
        log, changes = process.communicate(timeout=scaled(END_SECONDS))

    assert process.returncode == status
    assert changes == f"one is {'FAILED' if status else 'SUCCEEDED'}\n"
    assert sum("loss 0.5" in line for line in log.splitlines()) == 1
    assert ("Job completed successfully." in log) is (status == 0)
    assert ("exited with a non-zero status of 3" in log) is (status == 3)


def test_waiting_on_a_terminal_shows_state_position_and_time_and_ends_at_ctrl_c(
    environment: dict[str, str], client: TrainingClient
) -> None:
    submit(client, "one", "two", "three", "four")
    submit(client, "five", state=None)
    process, ours = start_on_terminal(environment, "logs", "five", "--follow")
    written = b""
    while b"position 1" not in written:
        written += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)

    written_text = written.decode() + read_terminal(ours)

    assert process.wait(scaled(END_SECONDS)) == 130
    assert re.search(r"five: QUEUED, position 1, for 0:0\d:\d\d", written_text)
    assert "interrupted; jobs go on" in written_text
    assert "Traceback" not in written_text
    assert "\x1b[?25h" in written_text  # the cursor is back


def test_cancel_waits_for_the_end(run: Run, client: TrainingClient) -> None:
    submit(client, "one", "two")

    waited = run("cancel", "one", "--wait", "--json")
    again = run("cancel", "one", "--wait")
    at_once = run("cancel", "two")

    assert (waited.returncode, json.loads(waited.stdout)["state"]) == (0, "CANCELLED")
    assert again.returncode == 0
    assert at_once.returncode == 0
    assert re.fullmatch(r"two is (CANCELLING|CANCELLED|RUNNING)\n", at_once.stderr)


@pytest.mark.parametrize(
    ("arguments", "changes", "status", "expected"),
    [
        (["describe", "absent"], {}, 1, "error: job 'absent' not found in project"),
        (["logs", "absent"], {}, 1, "`jobs list` shows the jobs"),
        (["cancel", "absent"], {}, 1, "not found"),
        (["list", "--filter", "nonsense"], {}, 1, "the filter needs"),
        (["list"], {"TRAINING_ENDPOINT": "http://127.0.0.1:1"}, 1, "`make serve` starts it"),
        (["list"], {"TRAINING_ENDPOINT": "localhost:8470"}, 2, "the endpoint must be a URL"),
        (["list"], {"GOOGLE_CLOUD_PROJECT": ""}, 2, "--project"),
        (["list", "--limit", "0"], {}, 2, "invalid _positive value"),
        (["logs", "one", "--severity", "loud"], {}, 2, "invalid choice"),
        ([], {}, 2, "usage:"),
    ],
)
def test_errors_are_said_in_a_line_that_helps(
    run: Run, arguments: list[str], changes: dict[str, str], status: int, expected: str
) -> None:
    done = run(*arguments, **changes)

    assert done.returncode == status
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_options_come_before_the_environment(
    environment: dict[str, str], run: Run, client: TrainingClient
) -> None:
    submit(client, "one")
    elsewhere = {"TRAINING_ENDPOINT": "http://127.0.0.1:1", "GOOGLE_CLOUD_PROJECT": "other"}
    named = ("--endpoint", environment["TRAINING_ENDPOINT"], "--project", PROJECT)

    done = run("list", *named, "--json", **elsewhere)

    assert [job["jobId"] for job in json.loads(done.stdout)["jobs"]] == ["one"]


def test_a_reader_that_goes_is_no_error(environment: dict[str, str], client: TrainingClient) -> None:
    submit(client, "one")
    with start(environment, "logs", "one", "--follow", "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        client.cancel_job("one")  # so that there is more to write

        assert process.wait(scaled(END_SECONDS)) == 141
        assert "Traceback" not in process.stderr.read()


def test_the_token_of_the_environment_is_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[dict[str, str] | None] = []

    class Client:
        def __init__(self, endpoint: str, project: str, *, headers: dict[str, str] | None) -> None:
            seen.append(headers)
            raise KeyboardInterrupt

    monkeypatch.setattr("training_api.command_line.connection.TrainingClient", Client)
    monkeypatch.setenv("TRAINING_TOKEN", "secret")

    assert main(["jobs", "list", "--project", "p"]) == 130
    assert seen == [{"Authorization": "Bearer secret"}]
    assert "secret" not in capsys.readouterr().err


@pytest.mark.parametrize("example", examples("cli"), ids=str)
def test_the_documented_commands_are_understood(example: object) -> None:
    code = getattr(example, "code", "")
    parsers = {"training_service": build_parser(), "container_training": airflow_side_parser()}
    lines = [line.partition("-m ")[2] for line in code.splitlines() if "-m " in line]

    assert lines
    for line in lines:
        program, *arguments = (quoted or word for quoted, word in re.findall(r"'([^']*)'|(\S+)", line))
        assert parsers[program].parse_args(arguments).run
