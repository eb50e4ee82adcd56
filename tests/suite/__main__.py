"""
Runs the suite: its parts side by side, one part, the quick tests, or all repeatedly.

    python -m tests.suite [--only NAME] [--quick] [--all] [--times N] [--loaded N] [PYTEST OPTION ...]

With a path, ``-k`` or ``-m`` among pytest's options it is one pytest process with these, and nothing else is
run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import mkdtemp

import docker
import docker.errors
from docker.utils import kwargs_from_env
from filelock import FileLock, Timeout

from tests.suite.flaky import Repetition, table
from tests.suite.load import loaded
from tests.suite.parts import EXTENDED, QUICK, WIDTH, Part, parts_for
from tests.suite.results import Outcome, read_report, summary
from tests.suite.runner import PartRun, Place, Runner
from tests.support.dead_runs import clean_up_after_dead_runs
from tests.support.run_id import current_run
from tests.support.speed import PARTS_VARIABLE as PARTS_AT_ONCE
from tests.support.speed import VARIABLE as SLOWNESS
from tests.support.speed import measure

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / ".local" / "test-results"
#: The folders of tests that are to be removed when the runner is started the next time, a line each.
KEPT = RESULTS / "kept"
#: Held by a run until its process ends.
LOCK = RESULTS.with_suffix(".lock")
#: Not /tmp, which is small on some machines; a socket's path must be short, which one in a deep checkout is
#: not.
SCRATCH = Path(os.environ.get("TESTS_SCRATCH", "/var/tmp"))
#: A user who is not root cannot run some tests; with this set to 1 that is no failure.
PARTIAL = "ALLOW_PARTIAL"


def main(arguments: Sequence[str]) -> int:
    """
    Run what ``arguments`` select; return 0 if every test ran and passed.

    Tests that need root may be left out, if that was allowed.
    """
    options, pytest_options = _parser().parse_known_args(arguments)
    try:
        parts = _parts(options, pytest_options)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(LOCK, blocking=False):
            return _run_all(options, parts, pytest_options)
    except Timeout:
        print(
            f"error: another run uses this checkout ({LOCK} is locked), and the folders of its tests would be removed; "
            "wait for its end, or run in another clone",
            file=sys.stderr,
        )
        return 2


def _run_all(options: argparse.Namespace, parts: Sequence[Part], pytest_options: Sequence[str]) -> int:
    """Run ``parts`` as often as ``options`` say; return the worst exit status."""
    # A shell ignores SIGINT for what it starts in the background, and would for the parts; SIGTERM ends a run
    # in the same way.
    for interrupt in (signal.SIGINT, signal.SIGTERM):
        signal.signal(interrupt, signal.default_int_handler)
    _clean_up()
    if not options.keep_results:
        _forget_last_runs()
    repetitions = []
    status = 0
    for number in range(1, options.times + 1):
        is_loaded = number > options.times - options.loaded
        if options.times > 1:
            print(f"run {number} of {options.times}{', under load' if is_loaded else ''}", flush=True)
        try:
            results = RESULTS / f"run-{number}" if options.times > 1 else RESULTS
            repetition = _run(parts, pytest_options, results, is_loaded=is_loaded)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
        repetitions.append(repetition)
        status = max(status, repetition.status)
    if options.times > 1:
        text = table(repetitions)
        (RESULTS / "flaky.md").write_text(text, encoding="utf-8")
        print(text)
    return status


def _run(parts: Sequence[Part], options: Sequence[str], results: Path, *, is_loaded: bool) -> Repetition:
    """
    Run ``parts`` once.

    If one fails, the folders of its tests are kept until the runner is started again.
    """
    results.mkdir(parents=True, exist_ok=True)
    scratch = Path(mkdtemp(prefix="ct-tests-", dir=SCRATCH))
    with KEPT.open("a", encoding="utf-8") as kept:
        kept.write(f"{scratch}\n")
    with ExitStack() as stack:
        stack.enter_context(current_run().temporary_folder(scratch))
        if is_loaded:
            stack.enter_context(loaded(scratch))
        slowness = measure()
        environment = os.environ | {
            SLOWNESS: f"{slowness:.3f}",
            PARTS_AT_ONCE: str(min(len(parts), WIDTH)),
            "TMPDIR": str(scratch),
        }
        runner = Runner(Place(results=results, scratch=scratch), options, environment)
        begun = time.monotonic()
        runs = runner.run(parts)
        seconds = time.monotonic() - begun
    print(summary(runs, slowness=slowness, seconds=seconds, peak_memory_bytes=runner.peak_memory_bytes))
    status = _status(runs)
    if status == 0:
        shutil.rmtree(scratch, ignore_errors=True)
    else:
        print(
            f"kept: {scratch} (the tests' folders, with the logs of their stacks), {results} (reports, output)"
        )
    tests = [result for run in runs for result in read_report(run.report)]
    return Repetition(
        results=tests,
        status=status,
        seconds=seconds,
        peak_memory_bytes=runner.peak_memory_bytes,
        is_loaded=is_loaded,
    )


def _forget_last_runs() -> None:
    """Remove reports of earlier runs, and the folders that failed or interrupted runs have kept."""
    if KEPT.is_file():
        for folder in KEPT.read_text("utf-8").splitlines():
            shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)


def _clean_up() -> None:
    """
    Remove what killed runs left behind.

    Without an engine, the next run that has one does it.
    """
    with suppress(docker.errors.DockerException):
        client = docker.APIClient(**kwargs_from_env())
        try:
            clean_up_after_dead_runs(client)
        finally:
            client.close()


def _status(runs: Sequence[PartRun]) -> int:
    """Return the worst exit status; a test that was not run is a failure unless that is allowed."""
    worst = max((abs(run.status) for run in runs), default=0)
    is_partial = any(result.outcome is Outcome.NOT_RUN for run in runs for result in read_report(run.report))
    if worst == 0 and is_partial and os.environ.get(PARTIAL) != "1":
        print(f"error: some tests were not run, see above; {PARTIAL}=1 lets that pass", file=sys.stderr)
        return 1
    return worst


def _parts(options: argparse.Namespace, pytest_options: Sequence[str]) -> Sequence[Part]:
    is_selection = any(
        word.startswith(("-k", "-m")) or "::" in word or (REPOSITORY / word).exists()
        for word in pytest_options
    )
    if is_selection:
        return [Part(name="chosen", selection=(), budget_seconds=3600)]
    parts = QUICK if options.quick else parts_for(options.only)
    return parts if options.all else [part.without_extended() for part in parts]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.suite", description="The tests of this project.")
    parser.add_argument(
        "--only", default="", metavar="NAME", help="a part, or a marker: see tests/suite/parts.py"
    )
    parser.add_argument("--quick", action="store_true", help="no engine, no processes of Airflow")
    parser.add_argument(
        "--all", action="store_true", help=f"with the further cases, which are marked {EXTENDED}"
    )
    parser.add_argument(
        "--keep-results",
        action="store_true",
        help="leave the results of the run before, which had other parts, where they are",
    )
    parser.add_argument("--times", type=int, default=1, metavar="N", help="run it N times, and compare")
    parser.add_argument(
        "--loaded",
        type=int,
        default=0,
        metavar="N",
        help="the last N runs beside a process that takes a core and the disk",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
