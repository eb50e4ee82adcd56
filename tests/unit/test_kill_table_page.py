"""
The page of the kill table is the table that the end-to-end test runs.

The table has no hole.
"""

from __future__ import annotations

from tests.e2e.kill_table.page import page
from tests.e2e.kill_table.table import Act, Job, Next, Phase, Task, cells
from tests.support.docs_examples import ROOT


def test_the_page_is_made_from_the_table() -> None:
    assert (ROOT / "docs" / "kill-table.md").read_text("utf-8") == page(), "run `make docs`"


def test_the_table_has_a_place_for_every_act_in_every_phase() -> None:
    places = [(cell.act, cell.phase) for cell in cells()]

    assert sorted(places) == sorted((act, phase) for act in Act for phase in Phase)


def test_a_job_that_is_kept_has_a_task_that_looks_after_it() -> None:
    kept = [cell for cell in cells() if cell.expected.job is Job.KEPT]

    assert kept
    assert {cell.expected.task for cell in kept} == {Task.CONTINUES, Task.AGAIN}


def test_a_task_that_does_not_go_on_has_a_next_attempt() -> None:
    for cell in cells():
        assert (cell.expected.next is Next.NONE) is (cell.expected.task is Task.CONTINUES), cell
