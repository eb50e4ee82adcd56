"""What the Makefile gives its programs."""

from __future__ import annotations

import os
import subprocess

from local_stack.settings import REPOSITORY_ROOT


def test_programs_write_the_bytecode_that_they_compile() -> None:
    target = 'show: ; @echo "got=$${PYTHONDONTWRITEBYTECODE-nothing}"'
    shown = subprocess.run(
        ["make", "--no-print-directory", f"--eval={target}", "show"],
        cwd=REPOSITORY_ROOT,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert shown.stdout == "got=nothing\n"
