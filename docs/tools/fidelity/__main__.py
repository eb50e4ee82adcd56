"""Prints docs/fidelity.md: what of the API is served, field by field."""

from __future__ import annotations

import sys

from docs.tools.fidelity.page import fidelity_page

if __name__ == "__main__":
    sys.stdout.write(fidelity_page())
