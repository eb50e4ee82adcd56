"""The guide's table of the example DAGs: which of them run on Vertex AI as well."""

from __future__ import annotations

import re

from tests.support.docs_examples import ROOT

_PAGE = ROOT / "docs" / "vertex-backend.md"
_ROW = re.compile(r"^\| `(?P<dag_id>\w+)` \| (?P<runs>yes|no) \| (?P<why>.*) \|$", re.MULTILINE)


def example_dags() -> dict[str, tuple[bool, str]]:
    """Return whether each listed DAG runs on Vertex AI, and what is said of it."""
    rows = list(_ROW.finditer(_PAGE.read_text(encoding="utf-8")))
    found = {row["dag_id"]: (row["runs"] == "yes", row["why"]) for row in rows}
    assert len(found) == len(rows), "a DAG is listed twice"
    return found
