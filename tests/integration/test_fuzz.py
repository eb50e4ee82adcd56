"""A part of ``make fuzz``: processes answer odd requests, and do nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from benchmarks.fuzz.campaign import MOST_GROWTH_PERCENT, assault
from benchmarks.fuzz.targets import Target, service_target, store_target
from benchmarks.fuzz.witness import NOTES
from tests.support.ports import reserve_port

REQUESTS, SEED = 1500, 17


@pytest.mark.parametrize(
    "run", [service_target, lambda folder: store_target(folder, reserve_port())], ids=["service", "store"]
)
def test_odd_requests_are_answered_and_leave_nothing_behind(
    run: Callable[[Path], AbstractContextManager[Target]], tmp_path: Path
) -> None:
    with run(tmp_path) as target:
        outcome = assault(target, REQUESTS, SEED)

    assert outcome.faults == []
    assert outcome.tracebacks == []
    assert outcome.outside == []
    assert outcome.growth_percent <= MOST_GROWTH_PERCENT
    # Most requests get somewhere: they are not all turned away at the door.
    assert outcome.statuses["200"] > REQUESTS / 10
    assert outcome.statuses.total() == REQUESTS


def test_a_program_that_writes_outside_its_folder_is_seen(tmp_path: Path) -> None:
    folder, module = tmp_path / "folder", tmp_path / "writes.py"
    folder.mkdir()
    module.write_text(
        "import os, sqlite3\n"
        "open('inside', 'w').close(); open('../opened', 'w').close(); open('inside').close()\n"
        "os.mkdir('../made'); os.rename('inside', '../moved'); sqlite3.connect('../database')\n"
    )
    command = [sys.executable, "-m", "benchmarks.fuzz.witness", str(folder), "writes"]
    places = f"{Path(__file__).resolve().parents[2]}:{tmp_path}"

    subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"}, check=True
    )

    noted = [line.split()[1].strip("'") for line in (folder / NOTES).read_text("utf-8").splitlines()]
    assert noted == ["../opened", "../made", "../moved", "../database"]
