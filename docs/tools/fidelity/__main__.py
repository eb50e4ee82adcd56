"""Writes the pages on what is served of each API: docs/fidelity.md and its like."""

from __future__ import annotations

from pathlib import Path

from docs.tools.fidelity.ml_v1.reference import ML_V1
from docs.tools.fidelity.page import fidelity_page
from docs.tools.fidelity.vertex_v1.reference import VERTEX_V1

DOCS = Path(__file__).parents[2]
REFERENCES = (ML_V1, VERTEX_V1)

if __name__ == "__main__":
    for reference in REFERENCES:
        DOCS.joinpath(reference.page).write_text(fidelity_page(reference), "utf-8")
